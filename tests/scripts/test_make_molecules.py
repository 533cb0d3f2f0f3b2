import gzip
import hashlib
import sys
import zipfile

import pytest

from ipsrl.environments.molecules.data import folder_of, molecules
from scripts import make_molecules as command
from scripts.make_molecules import make_molecules, make_moses, strings

TEXTS = {"train": ["CCO", "c1ccccc1", "OC"], "test": ["CN"], "test_scaffolds": ["C1CC1", "C1CCC1"]}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "molsets-0.3.1-py3-none-any.whl"
    information = "molsets-0.3.1.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("moses/__init__.py", "raise SystemExit('imported')")
        for split, texts in TEXTS.items():
            archive.writestr(
                f"moses/dataset/data/{split}.csv.gz", gzip.compress("\n".join(["SMILES", *texts]).encode())
            )
        archive.writestr(f"{information}/LICENSE", "All may use it.\n")
        archive.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: molsets\nVersion: 0.3.1\n")
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{information}/RECORD", "")
    return path


@pytest.fixture
def sha256(wheel):
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def run(monkeypatch, *flags):
    """The command in this process; returns its exit status or message."""
    monkeypatch.setattr(sys, "argv", ["make_molecules.py", *map(str, flags)])
    try:
        command.main()
    except SystemExit as end:
        return end.code
    return 0


def test_moses_is_written_as_it_is_in_a_wheel(wheel, sha256, tmp_path):
    out = tmp_path / "new" / "any name"
    assert make_moses(out, wheel, sha256) == out
    assert {split: list(molecules(str(out), split)) for split in TEXTS} == TEXTS
    assert (out / "LICENSE").read_text() == "All may use it.\n"
    assert list(out.parent.iterdir()) == [out], "nothing temporary is left"


def test_moses_is_fetched_by_pip(wheel, sha256, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    assert list(molecules(str(make_moses(tmp_path / "moses", None, sha256)), "test")) == TEXTS["test"]
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(ValueError, match=r"pip cannot download molsets==0\.3\.1 .*: is there a way to its index"):
        make_moses(tmp_path / "again", None, sha256)


def test_a_complete_folder_is_kept_unless_forced(wheel, sha256, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("IPSRL_CACHE", str(tmp_path))
    monkeypatch.setattr(command, "make_moses", lambda out, wheel: make_moses(out, wheel, sha256))
    assert run(monkeypatch, f"--wheel={wheel}") == 0
    folder = folder_of("moses")
    assert capsys.readouterr().out == f"{folder}\n"
    (folder / "mine").touch()
    assert run(monkeypatch, f"--wheel={wheel}") == 0
    assert capsys.readouterr().out == f"there already, left as it is; --force writes it again:\n{folder}\n"
    assert (folder / "mine").exists()
    assert run(monkeypatch, "--force", f"--wheel={wheel}") == 0
    assert not (folder / "mine").exists()
    assert list(molecules("moses")) == TEXTS["train"]
    # What is not ours is never replaced.
    (tmp_path / "mine").mkdir()
    assert run(monkeypatch, f"--wheel={wheel}", f"--out={tmp_path / 'mine'}") == 0, "an empty folder"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis").touch()
    said = run(monkeypatch, "--force", f"--wheel={wheel}", f"--out={tmp_path / 'other'}")
    assert said == f"error: {tmp_path / 'other'} holds something else than molecules: choose another --out"


def test_a_failure_leaves_what_was_there(wheel, sha256, tmp_path, monkeypatch):
    out = make_moses(tmp_path / "moses", wheel, sha256)

    def fails(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr(command, "write_texts", fails)
    with pytest.raises(OSError, match="no space left"):
        make_moses(out, wheel, sha256)
    assert list(molecules(str(out))) == TEXTS["train"]
    assert list(tmp_path.iterdir()) == [out]


FILES = {
    "plain": (b"CCO\nCN\n", [(1, "CCO"), (2, "CN")]),
    "names": (b"CCO ethanol\r\n\r\nCN\tmethylamine\r\n", [(1, "CCO"), (3, "CN")]),
    "header": (b"SMILES\nCCO\n", [(2, "CCO")]),
    "header with names": (b"smiles name\nCCO the first\n", [(2, "CCO")]),
    "columns": (b"chembl_id\tcanonical_smiles\tinchi\nC1\tCCO\tx\nC2\nC3\tCN\ty\n", [(2, "CCO"), (3, ""), (4, "CN")]),
    "no UTF-8": (b"CCO\n\xff\xfe\nCN", [(1, "CCO"), (2, "\ufffd\ufffd"), (3, "CN")]),
    "CSV": (b"smiles,label\nCCO,1\nCN,0\n", [(2, "CCO"), (3, "CN")]),
    "CSV with quotes": (b'\xef\xbb\xbf"a, b","SMILES"\r\n"1, 2","CCO"\r\n3,CN\r\n\r\n', [(2, "CCO"), (3, "CN")]),
    "CSV with breaks": (b'smiles,logP\n"CCO\n",5.05\nCN,1\n', [(3, "CCO"), (4, "CN")]),
    "semicolons": (b'"Name";"Smiles"\n"a;b";CCO\nonly\n', [(2, "CCO"), (3, "")]),
    "no header": (b"CCO,1\n", [(1, "CCO,1")]),
    "empty": (b"", []),
}


@pytest.mark.parametrize(("content", "found"), FILES.values(), ids=FILES)
def test_the_strings_of_a_file(content, found, tmp_path):
    file = tmp_path / "file"
    for data in (content, gzip.compress(content)):
        file.write_bytes(data)
        assert list(strings(file)) == found


def test_a_compressed_file_that_was_cut_is_named(tmp_path):
    file = tmp_path / "chembl.txt.gz"
    file.write_bytes(gzip.compress(b"CCO\n" * 1000)[:-12])
    with pytest.raises(ValueError, match=r"chembl\.txt\.gz cannot be decompressed, is it complete\?"):
        list(strings(file))


def test_a_file_that_is_no_table_is_named(tmp_path):
    (tmp_path / "one.gz").write_bytes(gzip.compress(b"CCO\n" + bytes(command.LONGEST_LINE + 1)))
    with pytest.raises(ValueError, match=r"line 2 of .*one\.gz has more than 100,000 characters: write one molecule"):
        list(strings(tmp_path / "one.gz"))
    (tmp_path / "two.csv").write_text('smiles,name\nCCO,"open\n' + "CCO,closed\n" * 20_000)
    with pytest.raises(ValueError, match=r"two\.csv is damaged CSV \(.*\): is a quote left open\?"):
        list(strings(tmp_path / "two.csv"))


def test_own_molecules_are_canonical_and_each_is_there_once(tmp_path):
    pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')
    file = tmp_path / "own.smi"
    file.write_text("OCC ethanol\nC1=CC=CC=C1\nc1ccccc1C(\nCCO\nCCCCCC\nC[Xx]\n[Na+].[Cl-]\n")
    out, broken = make_molecules(tmp_path / "own", "own", file, longest=6, test_share=0.0)
    assert list(molecules(str(out))) == ["CCO", "CCCCCC", "[Cl-].[Na+]"]
    assert broken == [
        "line 2: 8 tokens, 'c1ccccc1'",
        "line 3: RDKit cannot read 'c1ccccc1C('",
        "line 6: RDKit cannot read 'C[Xx]'",
    ]
    with pytest.raises(ValueError, match="has no molecules in the split 'test'"):
        molecules(str(out), "test")


def test_the_test_split_does_not_depend_on_the_file(tmp_path):
    pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')
    texts = ["C" * length + end for length in range(1, 40) for end in ("O", "N", "F", "Cl", "C(=O)O")]
    held_out = []
    for name, lines in (("one", texts), ("two", [f"{text} name" for text in texts[::-1]])):
        (tmp_path / f"{name}.smi").write_text("\n".join(lines))
        out, broken = make_molecules(tmp_path / name, name, tmp_path / f"{name}.smi", test_share=0.2)
        assert not broken
        splits = [set(molecules(str(out), split)) for split in ("train", "test")]
        assert len(splits[0]) + len(splits[1]) == len(splits[0] | splits[1]) == len(texts)
        held_out.append(splits[1])
    assert held_out[0] == held_out[1]
    assert 0.1 < len(held_out[0]) / len(texts) < 0.3
    last = "C" * 39 + "O"
    assert make_molecules(tmp_path / "low", "low", _file(tmp_path, last), test_share=0.0)
    with pytest.raises(ValueError, match=r"all 1 molecules of .* belong to the split test: lower --test_share"):
        make_molecules(tmp_path / "high", "high", _file(tmp_path, last), test_share=1.0)


def _file(folder, text):
    (folder / "one_line.smi").write_text(text)
    return folder / "one_line.smi"


def test_the_command_counts_broken_lines(tmp_path, monkeypatch, capsys):
    pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')
    file = tmp_path / "own.smi"
    file.write_text("\n".join(["CCO", *["C("] * 7, "CN"]))
    out = tmp_path / "own"
    assert run(monkeypatch, f"--smiles={file}", "--name=own", f"--out={out}", "--test_share=0") == 0
    lines = [f"line {number}: RDKit cannot read 'C('" for number in range(2, 7)]
    assert capsys.readouterr().out.splitlines() == ["7 lines are left out:", *lines, "...", str(out)]
    assert list(molecules(str(out))) == ["CCO", "CN"]
