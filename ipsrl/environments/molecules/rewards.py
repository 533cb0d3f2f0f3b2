"""Rewards of molecules: geometric means of factors in [0, 1], each an exact function of RDKit.

    synth        dock, QED, donors, accessible               the shape of SYNTH (arXiv 2505.08774)
    all_amide    dock, QED, donors, accessible by amides     the shape of ALL-AMIDE
    qed          QED alone

Docking and the search for routes are out of reach here. Two factors are STAND-INS for them: `DockStandIn`, a likeness
to known ligands, and `Accessible`, a score of RDKit. Wherever these rewards are shown, the words "stand-in reward" are.
"""

import abc
import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from ipsrl import extras
from ipsrl.checking import specifications
from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked, finite, non_negative, positive
from ipsrl.environments.molecules.parsing import morgan, parsed, silent

if TYPE_CHECKING:
    from rdkit.Chem import Mol

LIGANDS = (
    "O=C1N(Cc2ccccc2C)C2=NCCN2C2=C1CN(Cc1ccccc1)CC2",
    "O=C1N(Cc2ccc(F)cc2F)C2=NCCN2C2=C1CN(Cc1ccccc1)CC2",
)
"""ONC201 and ONC206, which bind the papers' target, ClpP."""
AMIDE = "[C;!$(C([#7])[#7]):1](=!@[O:2])!@[#7;+0;!D1:3]"
"""RDKit's RECAP rule for amides, as its reactant is written."""


class Factor(Checked, abc.ABC):
    """Base of the factors of a reward."""

    @abc.abstractmethod
    def __call__(self, molecule: "Mol") -> float:
        """The factor of a molecule, in [0, 1]."""

    def check(self) -> None:
        """Raises ValueError if RDKit cannot read something that it needs; unlike the constructor, it asks RDKit."""


@dataclasses.dataclass(frozen=True)
class DrugLikeness(Factor):
    """QED, the quantitative estimate of drug-likeness (Bickerton 2012), untransformed."""

    def __call__(self, molecule: "Mol") -> float:
        extras.require("rdkit")
        from rdkit.Chem import QED

        return QED.qed(molecule)


@dataclasses.dataclass(frozen=True)
class FewDonors(Factor):
    """1 if the molecule has at most so many donors of hydrogen bonds, else 0."""

    most: int = non_negative(3, called="donors")

    def __call__(self, molecule: "Mol") -> float:
        extras.require("rdkit")
        from rdkit.Chem import rdMolDescriptors

        return float(rdMolDescriptors.CalcNumHBD(molecule) <= self.most)


@dataclasses.dataclass(frozen=True)
class Accessible(Factor):
    """1 if the score of synthetic accessibility (Ertl and Schuffenhauer 2009; 1 easy, 10 hard) is low enough, else 0.

    A stand-in for "a route to buyable molecules is found". With `by_amides` also every cut that RECAP's rules allow
    must be one of an amide, and there must be one: a stand-in for "and all its reactions form amides" (our reading:
    RECAP, and at least one cut).
    """

    score: float = positive(2.5, called="accessible")
    by_amides: bool = False

    def check(self) -> None:
        """Raises ValueError if RDKit does not have the rules."""
        if self.by_amides:
            _cuts()

    def __call__(self, molecule: "Mol") -> float:
        extras.require("rdkit")
        from rdkit.Contrib.SA_Score import sascorer

        if self.by_amides:
            amide, *others = _cuts()
            if not molecule.HasSubstructMatch(amide) or any(map(molecule.HasSubstructMatch, others)):
                return 0.0
        return float(sascorer.calculateScore(molecule) <= self.score)


@dataclasses.dataclass(frozen=True)
class DockStandIn(Factor):
    """Saturn's shape of a docking score x in kcal/mol, 1 / (1 + 10^(0.09375 (x + 8))), of a stand-in for the score.

        x = `far` + (`near` - `far`) s

    s is the largest Tanimoto similarity of Morgan fingerprints to the `ligands`. The shape is that of arXiv 2505.08774
    (0.5 at -8, 0.61 at -10, 0.70 at -12); the stand-in is ours, and says nothing of how a molecule docks. Its scale
    gives molecules of MOSES (s of 0.09 to 0.21) the scores of -6 to -9 that docking gives drug-like molecules.

    Raises:
      ValueError: there is no ligand.
    """

    ligands: tuple[str, ...] = LIGANDS
    far: float = finite(-4.0)
    near: float = finite(-28.0)

    def __post_init__(self):
        super().__post_init__()
        if not self.ligands:
            raise ValueError("ligands must hold one molecule at least, as a SMILES string")

    def check(self) -> None:
        """Raises ValueError if a ligand is no molecule."""
        _of_ligands(self.ligands)

    def __call__(self, molecule: "Mol") -> float:
        extras.require("rdkit")
        from rdkit.DataStructs import BulkTanimotoSimilarity

        similarity = max(BulkTanimotoSimilarity(morgan().GetFingerprint(molecule), list(_of_ligands(self.ligands))))
        score = self.far + (self.near - self.far) * similarity
        return 1.0 / (1.0 + 10.0 ** (0.09375 * (score + 8.0)))


@dataclasses.dataclass(frozen=True)
class MoleculeReward:
    """The geometric mean of factors of equal weight; 0 if one of them is 0."""

    factors: tuple[Factor, ...]

    def check(self) -> None:
        for factor in self.factors:
            factor.check()

    def __call__(self, molecule: "Mol") -> float:
        product = 1.0
        for factor in self.factors:
            # The later ones take longer.
            if (product := product * factor(molecule)) == 0.0:
                return 0.0
        return product ** (1 / len(self.factors))


def qed() -> MoleculeReward:
    """QED alone."""
    return MoleculeReward((DrugLikeness(),))


def synth(
    donors: int = 3, accessible: float = 2.5, ligands: tuple[str, ...] = LIGANDS, near: float = -28.0
) -> MoleculeReward:
    """The shape of SYNTH, a stand-in reward: donors, accessibility, likeness to ligands, QED."""
    return MoleculeReward((FewDonors(donors), Accessible(accessible), DockStandIn(ligands, near=near), DrugLikeness()))


def all_amide(
    donors: int = 3, accessible: float = 2.5, ligands: tuple[str, ...] = LIGANDS, near: float = -28.0
) -> MoleculeReward:
    """The shape of ALL-AMIDE, a stand-in reward: that of `synth`, of molecules that only amides hold together."""
    by_amides = Accessible(accessible, by_amides=True)
    return MoleculeReward((FewDonors(donors), by_amides, DockStandIn(ligands, near=near), DrugLikeness()))


CATALOG = {"qed": qed, "synth": synth, "all_amide": all_amide}


@checked
def make(text: str) -> MoleculeReward:
    """Builds the reward from a text such as `"synth(accessible=3)"`.

    Raises:
      ValueError: unknown name or argument (the message suggests known names), or an invalid value.
    """
    return specifications.build(text, CATALOG, "reward of molecules")


@functools.cache
def _cuts() -> "tuple[Mol, ...]":
    """Patterns of the bonds that the rules of RECAP cut: amides, then the others."""
    extras.require("rdkit")
    from rdkit import Chem
    from rdkit.Chem import Recap

    patterns = [rule.partition(">>")[0] for rule in Recap.reactionDefs]
    if AMIDE not in patterns:
        raise ValueError("this RDKit writes RECAP's rule for amides in another way: install rdkit==2026.9.1")
    others = [pattern for pattern in patterns if pattern != AMIDE]
    return tuple(Chem.MolFromSmarts(pattern) for pattern in (AMIDE, *others))


@functools.cache
def _of_ligands(ligands: tuple[str, ...]) -> tuple[Any, ...]:
    with silent():
        molecules = [parsed(smiles) for smiles in ligands]
    for smiles, molecule in zip(ligands, molecules, strict=True):
        if molecule is None:
            raise ValueError(f"the ligand {smiles!r} is no molecule: give SMILES strings")
    return tuple(map(morgan().GetFingerprint, molecules))
