import numpy as np
import pytest

pytest.importorskip("rdkit")

from experiments.molecules.rdkit_properties import fingerprints, moses_properties, random_spelling
from ipsrl.environments.molecules import rewards
from ipsrl.environments.molecules.chemistry import MoleculeReader
from ipsrl.environments.molecules.parsing import FINGERPRINT_BITS

PARACETAMOL = "CC(=O)Nc1ccc(O)cc1"
READER = MoleculeReader(rewards.qed())


def test_what_is_no_molecule_is_none_in_silence(capfd):
    assert random_spelling("C((") is None
    assert moses_properties("C((") is None
    assert capfd.readouterr() == ("", "")


def test_a_random_spelling_is_the_same_molecule_and_depends_on_the_seed():
    written = {random_spelling(PARACETAMOL, seed) for seed in range(20)}
    assert {READER(text).canonical for text in written} == {PARACETAMOL}
    assert len(written) > 10
    assert random_spelling(PARACETAMOL, 3) == random_spelling(PARACETAMOL, 3)


def test_fingerprints_are_rows_of_bits():
    found = fingerprints([PARACETAMOL, "CCO", "OCC"])
    assert found.shape == (3, FINGERPRINT_BITS)
    assert found.dtype == bool
    np.testing.assert_array_equal(found[1], found[2])
    assert fingerprints([]).shape == (0, FINGERPRINT_BITS)


def test_properties_of_ethanol():
    found = moses_properties("CCO")
    assert found["weight"] == pytest.approx(46.069, abs=1e-3)
    assert found.keys() == {"logP", "SA", "QED", "weight"}
