"""RDKit, which the extra `molecules` installs: whether it is there, silent, and asked only for what it can read.

It is imported where it is used, because most of the package runs without it.
"""

import contextlib
import functools
import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rdkit.Chem import Mol

LONGEST_STRING = 1000
"""Characters of a string that RDKit is asked to read."""
FINGERPRINT_RADIUS, FINGERPRINT_BITS = 2, 2048
"""Bonds around an atom, and bits, of Morgan fingerprints."""


def require_rdkit() -> None:
    """Raises ValueError if RDKit is not installed; it is not imported."""
    if importlib.util.find_spec("rdkit") is None:
        raise ValueError("molecules are read by RDKit, which is not installed: pip install 'ipsrl[molecules]'")


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keeps RDKit's messages from the terminal."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        yield


def parsed(smiles: str) -> "Mol | None":
    """RDKit's molecule, its atoms in the order of the string.

    None for a string that is empty, longer than `LONGEST_STRING`, or none of a molecule.
    """
    from rdkit import Chem

    if not 0 < len(smiles) <= LONGEST_STRING:
        return None
    molecule = Chem.MolFromSmiles(smiles)
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


@functools.cache
def morgan() -> Any:
    """RDKit's generator of Morgan fingerprints."""
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=FINGERPRINT_RADIUS, fpSize=FINGERPRINT_BITS)
