import pytest

pytest.importorskip("rdkit")

from rdkit.Chem import QED

from ipsrl.environments.molecules import rewards
from ipsrl.environments.molecules.parsing import parsed
from ipsrl.environments.molecules.rewards import (
    LIGANDS,
    Accessible,
    DockStandIn,
    DrugLikeness,
    FewDonors,
    MoleculeReward,
)

ANILIDE = "O=C(Nc1ccccc1)c1ccccc1"


@pytest.mark.parametrize(
    ("near", "score"), [(-8.0, 0.500), (-10.0, 0.606), (-12.0, 0.703), (-16.0, 0.849), (0.0, 0.151)]
)
def test_the_shape_of_the_docking_score_has_the_published_values(near, score):
    # Of a ligand itself the similarity is 1, and the score x is `near`.
    assert DockStandIn(near=near)(parsed(LIGANDS[0])) == pytest.approx(score, abs=5e-4)


def test_a_likeness_between_none_and_all_lies_between_the_ends():
    alone = DockStandIn(ligands=("CCO",))
    assert alone(parsed("[Na+]")) == pytest.approx(1 / (1 + 10 ** (0.09375 * 4)))  # x = far = -4
    assert alone(parsed("CCO")) > alone(parsed("CCCO")) > alone(parsed("[Na+]"))


@pytest.mark.parametrize(("smiles", "fits"), [("CCO", 1.0), ("OCC(O)C(O)CO", 0.0), ("OCC(O)CO", 1.0)])
def test_up_to_three_donors_fit(smiles, fits):
    assert FewDonors()(parsed(smiles)) == fits


@pytest.mark.parametrize(
    ("smiles", "only_amides"),
    [
        (ANILIDE, 1.0),
        ("O=C(Nc1ccccc1)c1ccc(cc1)C(=O)NC1CCCC1", 1.0),
        ("O=C(Nc1ccccc1)c1ccc(OC)cc1", 0.0),  # an ether, too
        ("O=C(OCC)c1ccccc1", 0.0),  # an ester
        ("c1ccccc1", 0.0),  # nothing to cut
        ("O=C(Nc1ccccc1)Nc1ccccc1", 0.0),  # a urea is another rule
    ],
)
def test_all_cuts_must_be_amides_and_there_must_be_one(smiles, only_amides):
    assert Accessible(score=10.0, by_amides=True)(parsed(smiles)) == only_amides


def test_a_reward_is_the_geometric_mean_and_zero_if_a_factor_is():
    molecule = parsed(LIGANDS[0])
    dock, drug = DockStandIn()(molecule), QED.qed(molecule)
    assert MoleculeReward((DockStandIn(), DrugLikeness()))(molecule) == pytest.approx((dock * drug) ** 0.5)
    assert rewards.synth(accessible=10.0)(molecule) == pytest.approx((dock * drug) ** 0.25)
    assert rewards.synth(accessible=1.0)(molecule) == 0.0
    assert rewards.qed()(molecule) == pytest.approx(drug)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("docking", "unknown reward of molecules 'docking'; known: all_amide, qed, synth"),
        ("synth(qed=1)", "has no argument 'qed'"),
        ("synth(ligands=())", "must hold one molecule at least"),
    ],
)
def test_what_is_no_reward_is_refused_in_a_sentence(text, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        rewards.make(text)


def test_a_ligand_that_is_no_molecule_is_found_before_the_first_reward():
    with pytest.raises(ValueError, match=r"the ligand 'C\(\(' is no molecule"):
        rewards.make("synth(ligands=('C((',))").check()


def test_an_rdkit_with_other_rules_is_refused_before_molecules_are_read(monkeypatch):
    rewards._cuts.cache_clear()
    monkeypatch.setattr(rewards, "AMIDE", "C(=O)N")
    with pytest.raises(ValueError, match="this RDKit writes RECAP's rule for amides in another way"):
        rewards.all_amide().check()
    rewards._cuts.cache_clear()
    rewards.synth().check()
