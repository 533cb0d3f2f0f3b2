import math
import types

import numpy as np
import pytest

pytest.importorskip("rdkit")

from experiments.molecules.prior import AMIDES, Pretraining
from experiments.molecules.search import PATIENCE, MoleculeSearch, SearchArm
from ipsrl.environments.molecules import rewards
from ipsrl.environments.molecules.chemistry import Molecule

PRIOR = Pretraining(
    AMIDES, molecules=112, batch=56, learning_rate=5e-3, max_tokens=60, hidden_size=16, num_layers=1, state_size=4
)
SEARCH = MoleculeSearch(PRIOR, rewards.synth(), group_size=32, budget=4, records=2, samples=8)


def molecules(*found):
    return [Molecule(smiles, "", "", reward, 0.0) for smiles, reward in found]


def test_yield_and_burden_are_those_of_the_order_of_discovery():
    found = molecules(("CCO", 0.9), ("CCN", 0.5), ("c1ccccc1", 0.86), ("CC", 0.81))
    values = SEARCH.measured(found, {"strings": [0, 64, 128]}, evaluated=[0, 1, 4])
    assert values["yield_80"] == [0, 1, 3]
    assert values["yield_85"] == [0, 1, 2]
    np.testing.assert_allclose(values["share_80"], [0, 1 / 4, 3 / 4])
    np.testing.assert_array_equal(values["evaluated"], [0, 2, 4])
    # The second evaluation is a third of the way through the second step.
    np.testing.assert_allclose(values["strings"], [0, 64 + 64 / 3, 128])
    assert math.isnan(values["burden_80"])
    assert values["best"].tolist() == ["CCO", "c1ccccc1", "CC", "CCN"]
    assert values["circles"] == 3
    assert 0 < values["diversity"] <= 2 / 3


def test_nothing_found_has_no_diversity():
    values = SEARCH.measured([], {"strings": [0, 64]}, evaluated=[0, 0])
    assert (values["yield_80"], values["circles"]) == ([0, 0, 0], 0)
    assert math.isnan(values["diversity"])


def test_what_a_policy_produces():
    texts = ["CCO", "OCC", "c1ccccc1", "C(("]
    found = SEARCH.produced(texts, np.array([1.0, 0, 1, 0]))
    assert (found["valid"], found["unique_valid"], found["top"]) == pytest.approx((3 / 4, 2 / 4, 2 / 4))
    assert found["scaffolds"] == pytest.approx(math.exp(2 / 3 * math.log(3 / 2) + 1 / 3 * math.log(3)))
    assert found["divergence"] == pytest.approx(0.5)
    assert SEARCH.produced(["", "C(("], np.zeros(2))["scaffolds"] == 0


def finds(group, monkeypatch):
    """Whatever a search samples, its groups are those that a function returns."""
    original = MoleculeSearch.environment
    found = types.SimpleNamespace(molecules=lambda trajectories: [group()])
    monkeypatch.setattr(
        MoleculeSearch,
        "environment",
        lambda search, identity=None: found if identity is None else original(search, identity),
    )
    monkeypatch.setattr(MoleculeSearch, "produced", lambda search, *sample: {})


def test_a_budget_counts_new_molecules_and_ends_a_search(monkeypatch):
    found = {"CCO": 0.9, "CCN": 0.7, "CC": 0.0, "C": 0.85, "CCC": 0.1}
    batches = iter([["CCO", "CCO", "C(("], ["CCN", "CCO"], ["CC", "C", "CCC"], ["never"]])

    finds(
        lambda: [Molecule(text, "", "", found[text], 0.0) if text in found else None for text in next(batches)],
        monkeypatch,
    )
    values = SEARCH.run(SearchArm(""), 0)
    assert values["yield_80"] == [0, 1, 2]  # CCO and CCN, then CC and C; CCC is beyond the budget
    assert values["evaluated"].tolist() == [0, 2, 4]
    assert values["repeats"].tolist() == [0, 1, 1]  # of CCO within the first group; CCO again is of another group
    assert next(batches) == ["never"]


def test_a_search_that_finds_nothing_new_ends(monkeypatch):
    asked = []
    finds(lambda: asked.append(None) or [None], monkeypatch)
    assert SEARCH.run(SearchArm(""), 0)["evaluated"].tolist() == [0, 0, 0]
    assert len(asked) == PATIENCE * 1  # a group is more than the budget


@pytest.mark.parametrize("arm", [SearchArm("ips_grpo(probability=exact)"), SearchArm("ips_grpo", "scaffold")])
def test_a_search_depends_on_its_seed_alone(arm):
    search = MoleculeSearch(PRIOR, rewards.qed(), group_size=32, budget=2, records=1, samples=8)
    one, same = search.run(arm, 0), search.run(arm, 0)
    assert one["strings"].tolist() == same["strings"].tolist()
    assert one["mean_reward"] == same["mean_reward"]


def test_an_arm_that_cannot_be_trained_is_refused_before_it_begins():
    with pytest.raises(ValueError, match="the objective needs log_backward"):
        SEARCH.curve("exact scaffolds", SearchArm("ips_grpo(probability=exact)", "scaffold"), 0)
