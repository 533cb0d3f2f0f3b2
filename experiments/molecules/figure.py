"""A page of molecules, drawn by RDKit."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ipsrl import extras

CELL = (260, 210)
"""Width and height of a molecule, in pixels."""


def draw_rows(path: Path, rows: Mapping[str, Sequence[tuple[str, float]]]) -> None:
    """Writes a PNG with a row of molecules for each name, given by SMILES strings, with name and number below each."""
    extras.require("rdkit")
    from rdkit import Chem
    from rdkit.Chem import Draw

    from ipsrl.environments.molecules.parsing import silent

    width = max(map(len, rows.values()))
    drawn, legends = [], []
    for name, molecules in rows.items():
        missing = width - len(molecules)
        with silent():
            drawn += [
                *(Chem.MolFromSmiles(smiles) for smiles, _ in molecules),
                *[Chem.Mol()] * missing,
            ]
        legends += [*(f"{name} {value:.3f}" for _, value in molecules), *[""] * missing]
    Draw.MolsToGridImage(drawn, molsPerRow=width, subImgSize=CELL, legends=legends).save(path)
