"""Another spelling of a molecule, the properties that MOSES compares, and fingerprints, by RDKit."""

import zlib
from collections.abc import Sequence

import numpy as np

from ipsrl import extras
from ipsrl.environments.molecules.parsing import FINGERPRINT_BITS, morgan, parsed, silent


def random_spelling(smiles: str, seed: int = 0) -> str | None:
    """One of the strings of a molecule, by RDKit at random; None if RDKit cannot read this one."""
    extras.require("rdkit")
    from rdkit import Chem

    with silent():
        if (molecule := parsed(smiles)) is None:
            return None
        return Chem.MolToRandomSmilesVect(
            molecule, 1, randomSeed=zlib.crc32(smiles.encode(), seed) >> 1
        )[0]


def moses_properties(smiles: str) -> dict[str, float] | None:
    """logP, SA, QED and the weight of a molecule, whose histograms MOSES compares (arXiv 1811.12823); None if RDKit
    cannot read the string.
    """
    extras.require("rdkit")
    from rdkit.Chem import QED, Crippen, Descriptors
    from rdkit.Contrib.SA_Score import sascorer

    with silent():
        if (molecule := parsed(smiles)) is None:
            return None
        return {
            "logP": Crippen.MolLogP(molecule),
            "SA": sascorer.calculateScore(molecule),
            "QED": QED.qed(molecule),
            "weight": Descriptors.MolWt(molecule),
        }


def fingerprints(texts: Sequence[str]) -> np.ndarray:
    """`[N, FINGERPRINT_BITS]` bool, Morgan fingerprints (`morgan`), of valid SMILES strings."""
    with silent():
        rows = [morgan().GetFingerprintAsNumPy(parsed(smiles)) for smiles in texts]
    return np.array(rows, bool).reshape(-1, FINGERPRINT_BITS)
