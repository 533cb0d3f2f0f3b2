import shutil

import numpy as np
import pytest

from ipsrl.environments.molecules import data
from ipsrl.environments.molecules.data import molecules
from ipsrl.environments.stored_texts import write_texts

TRAIN = ["CCO", "c1ccccc1", "[O-][N+](=O)c1ccc(Cl)cc1", "C" * 300, "CCCCCCCCCC"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    rows = {"train": [{"smiles": text} for text in TRAIN], "test": [{"smiles": "N"}]}
    return write_texts(tmp_path_factory.mktemp("molecules"), "few", ("smiles",), rows)


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "few")


def test_they_are_read_in_order(made, monkeypatch):
    found = molecules(str(made))
    assert list(found) == found[:] == TRAIN
    assert (len(found), found[0], found[-1]) == (5, TRAIN[0], TRAIN[-1])
    assert found[np.array([3, 0, 3, -1])] == [TRAIN[3], TRAIN[0], TRAIN[3], TRAIN[4]]
    assert (found[[]], found[5:], found[::2]) == ([], [], TRAIN[::2])
    # Blocks leave no seam.
    monkeypatch.setattr(data, "BLOCK", 2)
    assert list(found) == found[:] == TRAIN
    assert found[4:0:-1] == TRAIN[4:0:-1]
    for index in (5, -6, [0, 5]):
        with pytest.raises(IndexError, match="split train has 5 molecules: there is no number"):
            found[index]
    with pytest.raises(TypeError, match="by whole numbers, not by bool"):
        found[[True] * 5]


def test_a_name_is_looked_for_in_the_cache(made, tmp_path, monkeypatch):
    monkeypatch.setenv("IPSRL_CACHE", str(tmp_path))
    shutil.copytree(made, tmp_path / "molecules" / "few")
    assert list(molecules("few", "test")) == ["N"]
    assert list(molecules("few", "train[1:3]")) == TRAIN[1:3]


def test_what_has_not_been_made_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("IPSRL_CACHE", str(tmp_path))
    for source, sentence in (
        ("moses", f"there are no molecules in {tmp_path}/molecules/moses: run python scripts/make_molecules.py"),
        ("own", "molecules/own: run python scripts/make_molecules.py --smiles=FILE --name=own"),
        (f"{tmp_path}/own", f"--smiles=FILE --name=own --out={tmp_path}/own"),
    ):
        with pytest.raises(ValueError, match=f"{sentence}$"):
            molecules(source)


@pytest.mark.parametrize("split", ["dev", "test[:0]", "test["])
def test_a_split_that_is_not_there_is_named(split, made):
    with pytest.raises(ValueError, match=r"few.* has no molecules in the split .* \(.*\); known splits: train, test$"):
        molecules(str(made), split)


def test_damaged_folders_are_one_sentence(folder):
    def refused(message):
        with pytest.raises(ValueError, match=message) as caught:
            molecules(str(folder))
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith(": remove it, and make it again by python scripts/make_molecules.py")

    (texts,) = (folder / "1.0.0").glob("*train*")
    whole = texts.read_bytes()
    for damaged in (b"", whole[:-100], bytes(len(whole))):
        texts.write_bytes(damaged)
        refused(r"few, split train cannot be read \(")
    texts.unlink()
    refused(r"few, split train cannot be read \(.*No such file")
    texts.write_bytes(whole)
    assert len(molecules(str(folder))) == 5
    info, features = folder / "1.0.0" / "dataset_info.json", folder / "1.0.0" / "features.json"
    right = {file: file.read_text() for file in (info, features)}
    info.write_text(right[info].replace("array_record", "tfrecord"))
    refused("is not in the format array_record")
    features.write_text(right[features].replace('"smiles"', '"question"'))
    refused("has no feature .smiles.; known: question")
    for file in (features, info):
        file.write_text("{")
        refused("few.* holds no data set that can be read")
        file.unlink()
        refused("few.* holds no data set that can be read")
    shutil.rmtree(folder / "1.0.0")
    refused("few.* holds no data set that can be read")


def test_damage_inside_a_file_is_noticed_when_it_is_read(tmp_path):
    rows = [{"smiles": f"C{'N' * 200}{number}"} for number in range(2000)]
    folder = write_texts(tmp_path, "many", ("smiles",), {"train": rows})
    (texts,) = (folder / "1.0.0").glob("*train*")
    content = bytearray(texts.read_bytes())
    content[100_000:100_100] = bytes(100)
    texts.write_bytes(content)
    found = molecules(str(folder))
    assert found[0] == rows[0]["smiles"]
    with pytest.raises(ValueError, match=r"split train cannot be read \(.*\): remove it"):
        list(found)


@pytest.mark.parametrize("name", ["My-Data", "", ".."])
def test_what_cannot_be_a_name_is_refused(name):
    with pytest.raises(ValueError, match="have names of small letters, digits and _"):
        molecules(name)
