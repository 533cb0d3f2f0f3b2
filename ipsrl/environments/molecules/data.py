"""Sets of molecules, read from the TFDS data sets in array_record that `scripts/make_molecules.py` writes."""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from ipsrl.checking.foreign_code import said
from ipsrl.checking.paths import expanded
from ipsrl.distributed.start_up import cache_folder
from ipsrl.environments.stored_texts import VERSION, stored_split

FEATURE = "smiles"
MOSES = "moses"
NAME = re.compile(r"[a-z][a-z0-9_]*")
"""Pattern of the names that a set of molecules may have."""
# Read at once where many are.
BLOCK = 100_000
AGAIN = "remove it, and make it again by python scripts/make_molecules.py"


class StoredMolecules(Sequence[str]):
    """The SMILES strings of a split, in the order of the file that they come from; each is read when it is asked for.

    `molecules[3]` is a string; `molecules[:1000]` and `molecules[indices]`, of an array of whole numbers, are lists. To
    read all, `list(molecules)` or `molecules[:]`: about ten seconds for a million and a half.

    Args:
      records: examples of TFDS, each with one text.
      name: of the data set and split, in messages.
    """

    def __init__(self, records: Sequence[bytes], name: str):
        self._records, self._name = records, name

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> list[str]: ...

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray) -> str | list[str]:
        """Raises ValueError if the files are damaged, IndexError if there is no such molecule, TypeError for a mask."""
        number = len(self)
        if isinstance(index, slice):
            return self._read(range(number)[index])
        indices = np.asarray(index)
        if indices.size and not np.issubdtype(indices.dtype, np.integer):
            raise TypeError(f"molecules are chosen by whole numbers, not by {indices.dtype}")
        if np.any((indices < -number) | (indices >= number)):
            raise IndexError(f"{self._name} has {number} molecules: there is no number {index}")
        found = self._read((indices.reshape(-1) % max(1, number)).tolist())
        return found if indices.ndim else found[0]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), BLOCK):
            yield from self[start : start + BLOCK]

    def _read(self, indices: Sequence[int]) -> list[str]:
        parse = _parser()
        found = []
        try:
            for start in range(0, len(indices), BLOCK):
                records = self._records.__getitems__(indices[start : start + BLOCK])
                found.extend(parse(record).features.feature[FEATURE].bytes_list.value[0].decode() for record in records)
        # Which errors a damaged record leads to depends on where it is damaged.
        except Exception as error:
            raise ValueError(f"{self._name} cannot be read ({said(error)}): {AGAIN}") from error
        return found


def folder_of(name: str) -> Path:
    """The folder in which `scripts/make_molecules.py` puts the molecules called `name` unless asked otherwise."""
    return cache_folder() / "molecules" / name


def check_source(source: str) -> None:
    """Raises ValueError if this cannot be the name of a set of molecules, and is no folder."""
    if "/" in source:
        folder = expanded(source, "the folder of molecules")
        if not folder.is_dir():
            how = f"--smiles=FILE --name={folder.name} --out={source}"
            raise ValueError(f"there are no molecules in {folder}: run python scripts/make_molecules.py {how}")
    elif not NAME.fullmatch(source):
        raise ValueError(
            f"sets of molecules have names of small letters, digits and _, not {source!r}; write a folder as ./folder"
        )


def molecules(source: str, split: str = "train") -> StoredMolecules:
    """The molecules of a split.

    Args:
      source: a name, as "moses", of molecules in the cache; or, with a "/" in it, a folder that
        `scripts/make_molecules.py --out` has made.
      split: in the TFDS split syntax, such as "train", "test" or "train[:1000]"; MOSES has "test_scaffolds" as well.

    Raises:
      ValueError: the name cannot be one, they have not been made, there is no such split, or the files are damaged.
    """
    check_source(source)
    folder = expanded(source, "the folder of molecules") if "/" in source else folder_of(source)
    if not folder.is_dir():
        how = "" if source == MOSES else f" --smiles=FILE --name={folder.name}"
        raise ValueError(f"there are no molecules in {folder}: run python scripts/make_molecules.py{how}")
    records = stored_split(folder / VERSION, (FEATURE,), split, "molecules", AGAIN, AGAIN, as_bytes=True)
    found = StoredMolecules(records, f"{folder}, split {split}")
    # Files that are missing or cut are noticed here.
    found[0]
    return found


@functools.cache
def _parser() -> Callable[[bytes], Any]:
    """Reads one example of TFDS."""
    # TFDS's own parser makes an array of each text, which takes three times as long as reading it.
    from tensorflow_datasets.proto import tf_example_pb2

    return tf_example_pb2.Example.FromString
