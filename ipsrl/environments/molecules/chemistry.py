"""Molecules that RDKit reads from SMILES strings: scaffold, reward, and how likely this of its many strings is."""

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ipsrl import extras
from ipsrl.environments.molecules.parsing import parsed, silent
from ipsrl.environments.molecules.rewards import MoleculeReward

if TYPE_CHECKING:
    from rdkit.Chem import Mol

IDENTITIES = ("canonical", "scaffold", "scaffold_class")
MOST_SYMMETRIES = 10_000

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Molecule:
    """A molecule with the properties of the string that spells it.

    Attributes:
      canonical: RDKit's canonical SMILES string.
      scaffold: its Bemis-Murcko scaffold, rings and what links them; empty without rings, None where RDKit makes none.
      scaffold_class: the scaffold with every atom a carbon and every bond single, RDKit's generic scaffold; None where
        RDKit cannot make it, as for rings in which an atom has more than four bonds.
      reward: in [0, 1]; 0 where RDKit cannot compute it.
      log_spelling: see `log_spelling`.
    """

    canonical: str
    scaffold: str | None
    scaffold_class: str | None
    reward: float
    log_spelling: float


@dataclasses.dataclass(frozen=True)
class MoleculeReader:
    """Reads strings, and computes the reward of their molecules, for the processes of a `VerifierPool`."""

    reward: MoleculeReward

    def __call__(self, smiles: str) -> Molecule | None:
        """The molecule; None for a string that `parsed` cannot read."""
        extras.require("rdkit")
        from rdkit import Chem
        from rdkit.Chem.Scaffolds import MurckoScaffold

        with silent():
            if (molecule := _made(parsed, smiles)) is None:
                return None
            canonical, spelling = _made(Chem.MolToSmiles, molecule), _made(log_spelling, molecule)
            if canonical is None or spelling is None:
                return None
            scaffold = _made(MurckoScaffold.GetScaffoldForMol, molecule)
            generic = _made(MurckoScaffold.MakeScaffoldGeneric, scaffold)
            return Molecule(
                canonical=canonical,
                scaffold=_made(Chem.MolToSmiles, scaffold),
                scaffold_class=_made(Chem.MolToSmiles, generic),
                reward=_made(self.reward, molecule) or 0.0,
                log_spelling=spelling,
            )


def _made(make: Callable[[Any], T], of: Any) -> T | None:
    """`make(of)`; None for None, and where RDKit fails its own checks on something that it has made."""
    try:
        return None if of is None else make(of)
    except (RuntimeError, ValueError):
        return None


def log_spelling(molecule: "Mol") -> float:
    """log q(string | molecule), of the string that gave the atoms their order.

    A string is a depth-first walk through the molecule, and q is that of a walk which begins at any atom, and goes on
    to any atom not yet visited beside the one it stands at, with equal probabilities. An atom that opens or closes
    k rings names them in any order:

        q = |Aut| / n  product over the other atoms of 1 / (unvisited neighbours of the atom before it)
                       product over all atoms of 1 / k!

    n atoms; walks that a symmetry of the molecule maps to each other write the same string, as many as there are
    symmetries (counted up to `MOST_SYMMETRIES`). So q adds up to one over the strings of depth-first walks, of which a
    molecule of twenty atoms has up to millions. It is nearly RDKit's distribution of random strings (`doRandom`), and
    that of a policy that has learned from them. Other ways of writing a walk (needless brackets, ring numbers left
    out, alternating bonds for an aromatic ring), and strings that are no depth-first walk, as C(C1)C1, are taken for
    usual ones, so with them q adds up to more. Of several fragments RDKit keeps the order, where q allows any;
    symmetries that exchange pseudo-asymmetric atoms are not found.
    """
    neighbours = [[other.GetIdx() for other in atom.GetNeighbors()] for atom in molecule.GetAtoms()]
    visited_before = [[other for other in beside if other < number] for number, beside in enumerate(neighbours)]
    # All neighbours that were visited before lie on the way to this atom; the walk stood at the last of them.
    before = [max(earlier, default=None) for earlier in visited_before]
    log_choices = math.log(len(neighbours))
    for number, origin in enumerate(before[1:], start=1):
        unvisited = len(neighbours) - number if origin is None else sum(n >= number for n in neighbours[origin])
        log_choices += math.log(unvisited)
    for number, beside in enumerate(neighbours):
        rings = sum(before[max(number, other)] != min(number, other) for other in beside)
        log_choices += math.lgamma(rings + 1)
    # RDKit's matches take no account of hydrogens, by which the two nitrogens of imidazole differ.
    hydrogens = [atom.GetTotalNumHs() for atom in molecule.GetAtoms()]
    matches = molecule.GetSubstructMatches(molecule, uniquify=False, useChirality=True, maxMatches=MOST_SYMMETRIES)
    symmetries = sum([hydrogens[place] for place in match] == hydrogens for match in matches)
    return math.log(symmetries) - log_choices
