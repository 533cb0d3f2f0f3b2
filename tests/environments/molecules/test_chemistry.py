import collections
import dataclasses
import math

import pytest

pytest.importorskip("rdkit")

from rdkit import Chem
from rdkit.Chem import QED
from rdkit.Chem.Scaffolds import MurckoScaffold

from ipsrl.environments.molecules import rewards
from ipsrl.environments.molecules.chemistry import (
    Molecule,
    MoleculeReader,
    log_spelling,
)
from ipsrl.environments.molecules.parsing import LONGEST_STRING, parsed

READER = MoleculeReader(rewards.qed())
PARACETAMOL = "CC(=O)Nc1ccc(O)cc1"
# Chains, a symmetry, one ring, fused, bridged and spiro rings, cubane; atoms that hydrogens or chirality tell apart.
MOLECULES = (
    "CCO",
    "CC(C)(C)C",
    "Cc1ccccc1C",
    "c1ccc2ccccc2c1",
    "C1CC2CC1CC2",
    "C1CC11CC1",
    "C1CCC11OCCO1",
    "CC12CC1C2",
    "C12C3C4C1C5C2C3C45",
    "FC(F)(F)c1ccncc1",
    "c1ccc2[nH]ccc2c1",
    "c1c[nH]cn1",
    "Cc1cn[nH]c1",
    "c1ccc(-c2cn[nH]c2)cc1",
    "C[C@H](O)[C@@H](C)O",
)


def random_strings(smiles, number):
    return collections.Counter(Chem.MolToRandomSmilesVect(parsed(smiles), number, randomSeed=7))


@pytest.mark.parametrize("smiles", MOLECULES)
def test_the_probabilities_of_all_spellings_add_up_to_one(smiles):
    spelled = [math.exp(log_spelling(parsed(text))) for text in random_strings(smiles, 20_000)]
    assert sum(spelled) == pytest.approx(1.0, abs=1e-9)


def test_a_spelling_is_as_frequent_as_its_probability():
    number = 20_000
    found = random_strings("C1CC2CC1CC2", number)
    differences = [abs(count / number - math.exp(log_spelling(parsed(text)))) for text, count in found.items()]
    assert max(differences) < 0.01  # four standard errors of a share of 1/7


def test_equal_molecules_in_other_spellings_share_what_they_are_but_not_the_probability_of_the_spelling():
    one, other = READER("OCC"), READER("C(C)O")
    assert (one.canonical, one.reward) == (other.canonical, other.reward)
    # From an end both choices are forced; from the middle one of two neighbours comes first.
    assert one.log_spelling == pytest.approx(math.log(1 / 3))
    assert other.log_spelling == pytest.approx(math.log(1 / 3 / 2))


@pytest.mark.parametrize(
    ("smiles", "canonical"),
    [
        ("c1ccc(cc1)P12(OCCO1)OCCO2", "c1ccc(P23(OCCO2)OCCO3)cc1"),
        ("C1COS23(O1)(OCCO2)OCCO3", None),
        ("C1CCP2(CC1)(CCCCC2)c1ccccc1", None),
    ],
)
def test_atoms_with_five_bonds_or_more_in_rings_have_no_class_but_all_else(smiles, canonical):
    read = READER(smiles)
    assert read.canonical == (canonical or Chem.CanonSmiles(smiles))
    assert read.scaffold == Chem.MolToSmiles(MurckoScaffold.GetScaffoldForMol(parsed(smiles)))
    assert read.scaffold_class is None
    assert read.reward == QED.qed(parsed(smiles))
    assert read.log_spelling == log_spelling(parsed(smiles))


def test_a_reward_that_fails_is_none():
    def fails(molecule):
        raise RuntimeError("Invariant Violation")

    assert MoleculeReader(fails)("CCO") == dataclasses.replace(READER("CCO"), reward=0.0)


def test_scaffolds_leave_out_what_hangs_on_rings_and_classes_the_elements():
    read = READER(PARACETAMOL)
    assert isinstance(read, Molecule)
    assert (read.canonical, read.scaffold, read.scaffold_class) == (PARACETAMOL, "c1ccccc1", "C1CCCCC1")
    assert READER("c1ccncc1").scaffold_class == read.scaffold_class
    assert (READER("CCO").scaffold, READER("CCO").scaffold_class) == ("", "")


@pytest.mark.parametrize("text", ["", "C((", "c1cc", "C(C)(C)(C)(C)C", "not a molecule", "C" * (LONGEST_STRING + 1)])
def test_what_is_no_molecule_is_none_in_silence(text, capfd):
    assert READER(text) is None
    assert capfd.readouterr() == ("", "")
