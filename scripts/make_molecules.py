"""Writes a set of molecules that policies learn from: `python scripts/make_molecules.py`.

By default it is MOSES (arXiv 1811.12823; MIT licence): 1.6 million drug-like molecules in the splits train, test and
test_scaffolds, whose scaffolds the other two lack. Its package is fetched by pip (52 MB), checked by its hash, and
never installed; RDKit is not needed. --wheel=FILE takes the package from a file instead.

--smiles=FILE --name=NAME takes your own: a text file, compressed by gzip or not, with one SMILES string on each line,
and after a space or a tab whatever you like. If its first line names a column "smiles" or "canonical_smiles", it is
that one, as in ChEMBL's chembl_NN_chemreps.txt.gz, or in CSV, with commas or semicolons, as of MoleculeNet.
Each molecule is written once, as RDKit's canonical string, which needs the extra [molecules]. Lines that RDKit cannot
read, or with more tokens than --longest, are left out, and counted. By a hash of its string, which is the same in
every file, a molecule belongs to the split train or test. A million lines take a few minutes.

The result is a TFDS data set in array_record with the text "smiles". The last line of what is printed is its folder.
"""

import argparse
import csv
import gzip
import itertools
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.make_molecules")

from absl import logging

from ipsrl import extras
from ipsrl.checking.paths import expanded, require_possible
from ipsrl.command.ending import Ending
from ipsrl.environments.molecules import smiles
from ipsrl.environments.molecules.data import FEATURE, MOSES, NAME, folder_of
from ipsrl.environments.molecules.parsing import parsed, silent
from ipsrl.environments.stored_texts import VERSION, write_texts
from ipsrl.policies.gguf import wheels
from ipsrl.records.progress_line import counted

# The package of MOSES.
PACKAGE, PACKAGE_VERSION = "molsets", "0.3.1"
SHA256 = "7f4450e3ebecebe79c3a2a55950c93daddee071120daf64a163d03481e811d34"
MOSES_SPLITS = ("train", "test", "test_scaffolds")
LICENCE = "LICENSE"
# A header of a file has one of these words.
COLUMNS = ("smiles", "canonical_smiles")
QUOTING = (",", ";")
"""Separators of CSV, whose values may be in quotes."""
LONGEST_LINE = 100_000
SHOWN_LINES = 5
LONGEST, TEST_SHARE = 128, 0.01


def make_moses(out: Path, wheel: Path | None = None, sha256: str = SHA256) -> Path:
    """Writes MOSES to the folder `out`, from a wheel of its package, or by default from the one that pip fetches.

    Its strings are as they are there, canonical ones of the RDKit of 2019: the RDKit of 2026 would write 8 of the first
    10,000 of the split "test" differently.

    Raises:
      ValueError: there is no such file, it has another hash, or as `wheels.download`.
      OSError: `out` cannot be written.
    """
    if wheel is not None:
        if not wheel.is_file():
            raise ValueError(f"there is no file {wheel}: leave out --wheel, and pip fetches it")
        wheels.require_sha256(wheel, sha256)
    with tempfile.TemporaryDirectory() as folder:
        wheel = wheel or wheels.download(PACKAGE, PACKAGE_VERSION, sha256, Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            packed = {split: archive.read(f"moses/dataset/data/{split}.csv.gz") for split in MOSES_SPLITS}
            licence = archive.read(f"{PACKAGE}-{PACKAGE_VERSION}.dist-info/{LICENCE}").decode()
    # The first line of each is the name of the column.
    return write(
        out, MOSES, {split: gzip.decompress(data).decode().split()[1:] for split, data in packed.items()}, licence
    )


def make_molecules(
    out: Path, name: str, file: Path, longest: int = LONGEST, test_share: float = TEST_SHARE
) -> tuple[Path, list[str]]:
    """Writes the molecules of a file of SMILES strings to the folder `out`.

    Args:
      name: of the data set.
      longest: number of tokens, as REINVENT splits a string, that a canonical string may have, its end not counted.
      test_share: of the molecules, by a hash; the others are for training.

    Returns:
      `out`, and for each line that was left out a sentence with its number. A molecule that was there before is left
      out without one.

    Raises:
      ValueError: RDKit is missing, there is no such file, it cannot be decompressed, or no molecule is left for
        training.
      OSError: `out` cannot be written.
    """
    extras.require("rdkit")
    found: dict[str, None] = {}
    broken = []
    for number, text in counted(strings(file), "lines read"):
        molecule = canonical(text)
        if molecule is None:
            broken.append(f"line {number}: RDKit cannot read {text[:60]!r}")
        elif (tokens := len(smiles.split(molecule))) > longest:
            broken.append(f"line {number}: {tokens} tokens, {molecule[:60]!r}")
        else:
            found[molecule] = None
    splits = {"train": [], "test": []}
    for molecule in found:
        splits["test" if zlib.crc32(molecule.encode()) < test_share * 2**32 else "train"].append(molecule)
    if not found:
        raise ValueError("; ".join([f"{file} has no molecule (lines left out: {len(broken)})", *broken[:SHOWN_LINES]]))
    if not splits["train"]:
        raise ValueError(f"all {len(found)} molecules of {file} belong to the split test: lower --test_share")
    return write(out, name, {split: molecules for split, molecules in splits.items() if molecules}), broken


def strings(file: Path) -> Iterator[tuple[int, str]]:
    """The SMILES strings of a file, each with the number of its line; empty lines are skipped.

    Raises:
      ValueError: there is no such file, it cannot be decompressed, its CSV is damaged, or a line is too long.
    """
    if not file.is_file():
        raise ValueError(f"there is no file {file}: give a file with a SMILES string on each line")
    with file.open("rb") as opened:
        compressed = opened.read(2) == b"\x1f\x8b"
    try:
        # What is no UTF-8 is no SMILES string either: its line is broken, the others are not.
        with (gzip.open if compressed else open)(file, "rt", encoding="utf-8-sig", errors="replace") as opened:
            lines = _lines(opened, file)
            first = next(lines, "")
            separator, column = _column(first)
            before = int(column is not None)
            if column is None:
                lines, column = itertools.chain([first], lines), 0
            if separator in QUOTING:
                reader = csv.reader(lines, delimiter=separator)
                rows = ((before + reader.line_num, row) for row in reader)
            else:
                rows = enumerate((line.split(separator) for line in lines), start=before + 1)
            for number, fields in rows:
                if any(map(str.strip, fields)):
                    yield number, fields[column].strip() if column < len(fields) else ""
    except csv.Error as error:
        raise ValueError(f"{file} is damaged CSV ({error}): is a quote left open?") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{file} cannot be decompressed, is it complete? ({error})") from error


def _column(header: str) -> tuple[str | None, int | None]:
    """The separator of a file with this first line (None for blanks), and the place of the column; None without one."""
    for separator in (*QUOTING, "\t", None):
        if separator is None or separator in header:
            names = next(csv.reader([header], delimiter=separator)) if separator in QUOTING else header.split(separator)
            for place, name in enumerate(names):
                if name.strip().lower() in COLUMNS:
                    return separator, place
    return None, None


def _lines(opened: IO[str], file: Path) -> Iterator[str]:
    """The lines of a file, none of which fills the memory."""
    number = 0
    while line := opened.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise ValueError(f"line {number} of {file} has more than {LONGEST_LINE:,} characters: write one molecule")
        yield line


def write(out: Path, name: str, splits: Mapping[str, Sequence[str]], licence: str | None = None) -> Path:
    """Writes a data set of molecules to the folder `out`, which appears, or is replaced, when it is complete."""
    out.parent.mkdir(parents=True, exist_ok=True)
    # Beside it: a folder can only be renamed within a file system.
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
        rows = {
            split: ({FEATURE: molecule} for molecule in counted(molecules, f"written to {split}"))
            for split, molecules in splits.items()
        }
        made = write_texts(Path(temporary), name, (FEATURE,), rows)
        if licence is not None:
            (made / LICENCE).write_text(licence, encoding="utf-8")
        if out.exists():
            out.rename(Path(temporary) / "former")
        made.rename(out)
    return out


def canonical(text: str) -> str | None:
    """RDKit's canonical string of a molecule, or None where it cannot read one."""
    # Imported late: MOSES does not need it.
    extras.require("rdkit")
    from rdkit.Chem import MolToSmiles

    with silent():
        molecule = parsed(text)
        return None if molecule is None else MolToSmiles(molecule)


def is_complete(folder: Path) -> bool:
    """Whether a data set that this script writes is in `folder`."""
    return (folder / VERSION / "dataset_info.json").is_file()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--wheel", metavar="FILE", help="the wheel of the package of MOSES, if it is here already")
    made.add_argument("--smiles", metavar="FILE", help="your own molecules instead of MOSES")
    made.add_argument("--name", help="of your own molecules")
    made.add_argument("--out", metavar="DIR", help="the new folder; molecules/NAME in the cache by default")
    made.add_argument("--longest", type=int, help=f"maximum number of tokens, with --smiles; {LONGEST} by default")
    made.add_argument(
        "--test_share", type=float, help=f"share of the split test, with --smiles; {TEST_SHARE} by default"
    )
    made.add_argument("--force", action="store_true", help="write them again if they are there")
    return made


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError unless the flags fit together and are in their ranges, or if --smiles lacks RDKit."""
    if arguments.smiles is None:
        for flag in ("name", "longest", "test_share"):
            if getattr(arguments, flag) is not None:
                raise ValueError(f"--{flag} is for your own molecules: give them by --smiles=FILE, or leave it out")
        return
    if arguments.wheel is not None:
        raise ValueError("--wheel is for MOSES, and --smiles for your own molecules: leave one out")
    if arguments.name is None:
        raise ValueError("--smiles needs --name, of your molecules")
    if not NAME.fullmatch(arguments.name) or arguments.name == MOSES:
        raise ValueError(
            f"--name is {arguments.name!r}, it must begin with a letter, consist of lower-case letters, digits and _, "
            f"and not be {MOSES}"
        )
    if arguments.longest is not None and arguments.longest < 1:
        raise ValueError(f"--longest is {arguments.longest}, it must be at least 1")
    if arguments.test_share is not None and not 0 <= arguments.test_share < 1:
        raise ValueError(f"--test_share is {arguments.test_share}, it must be at least 0, and below 1")
    extras.require("rdkit")


def main() -> None:
    arguments = parser().parse_args()
    # TFDS would log every file.
    logging.set_verbosity(logging.WARNING)
    with Ending():
        check(arguments)
        name = arguments.name or MOSES
        out = expanded(arguments.out, "--out") if arguments.out else folder_of(name)
        require_possible(out)
        if is_complete(out) and not arguments.force:
            print(f"there already, left as it is; --force writes it again:\n{out}")
            return
        if not is_complete(out) and out.exists() and any(out.iterdir()):
            raise ValueError(f"{out} holds something else than molecules: choose another --out")
        if arguments.smiles is None:
            make_moses(out, None if arguments.wheel is None else expanded(arguments.wheel, "--wheel"))
        else:
            longest = LONGEST if arguments.longest is None else arguments.longest
            share = TEST_SHARE if arguments.test_share is None else arguments.test_share
            _, broken = make_molecules(out, name, expanded(arguments.smiles, "--smiles"), longest, share)
            if broken:
                print(f"{len(broken)} {'line is' if len(broken) == 1 else 'lines are'} left out:")
                print(*broken[:SHOWN_LINES], *["..."] * (len(broken) > SHOWN_LINES), sep="\n")
        print(out)


if __name__ == "__main__":
    main()
