"""RDKit, which the extra `molecules` installs: silent, and asked only for what it can read.

It is imported where it is used, because most of the package runs without it.
"""

import contextlib
import functools
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ipsrl import extras

if TYPE_CHECKING:
    from rdkit.Chem import Mol

LONGEST_STRING = 1000
"""Characters of a string that RDKit is asked to read."""
FINGERPRINT_RADIUS, FINGERPRINT_BITS = 2, 2048
"""Bonds around an atom, and bits, of Morgan fingerprints."""


@contextlib.contextmanager
def silent() -> Generator[None]:
    """Keeps RDKit's messages from the terminal."""
    extras.require("rdkit")
    from rdkit import rdBase

    with rdBase.BlockLogs():
        yield


def parsed(smiles: str) -> "Mol | None":
    """RDKit's molecule, its atoms in the order of the string.

    None for a string that is empty, longer than `LONGEST_STRING`, or none of a molecule.
    """
    extras.require("rdkit")
    from rdkit import Chem

    if not 0 < len(smiles) <= LONGEST_STRING:
        return None
    molecule = Chem.MolFromSmiles(smiles)
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


@functools.cache
def morgan() -> Any:
    """RDKit's generator of Morgan fingerprints."""
    extras.require("rdkit")
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=FINGERPRINT_RADIUS, fpSize=FINGERPRINT_BITS)
