import numpy as np
import pytest

from experiments import entropy_law
from experiments.entropy_law import CLAIMS, KEEPERS, PAPERS, PRESETS, TASKS, curves
from ipsrl.records.tidy import Records
from ipsrl.study import claims
from tests.experiments.recorded import recorded


def decided(**changed):
    """Claims about runs that obey the law, but for those changed: (value, objective) -> value."""
    rows = []
    for task in TASKS:
        for name in (*PAPERS, *KEEPERS):
            usual = {"rest_error": 0.0, "ceiling_error": 0.2 * (name in KEEPERS), "a": 0.1, "b": 1.1, "gain": 0.1}
            for seed in range(5):
                noise = 0.001 * seed
                values = {v: changed.get(v, {}).get(name, mean) + noise for v, mean in usual.items()}
                rows.append({"task": task, "objective": name, "step": 1, "seed": seed, **values})
    return list(claims.decided(CLAIMS, Records(rows, ("task", "objective"))).values())


def test_claims_are_decided_by_intervals():
    # Half of these six objectives keep entropy: the ceiling is not near for three quarters.
    assert decided() == [True, True, True, True, False, True, True]
    assert decided(ceiling_error=dict.fromkeys(KEEPERS, 0.0)) == [True, True, True, True, True, False, True]
    assert decided(ceiling_error={"rloo": 0.3})[1] is False
    assert decided(rest_error={"grpo": 0.019})[0] is None
    assert decided(a={"rloo": 0.2})[2] is False
    assert decided(gain={"grpo": -0.1})[3] is False


def test_all_tasks_take_the_catalog_and_a_penalty():
    names = {
        task: [curve.labels["objective"] for curve in curves(PRESETS["demo"]) if curve.labels["task"] == task]
        for task in TASKS
    }
    assert all(set(PAPERS) | set(KEEPERS) <= set(of_task) for of_task in names.values())
    assert min(map(len, names.values())) > 50


def test_a_run_holds_exact_rewards_and_entropies(tmp_path):
    records = recorded(entropy_law, PRESETS["smoke"], tmp_path / "out")
    steps, entropy = records.curve("entropy", task="bandit", objective="grpo")
    assert steps.tolist() == list(range(21))
    start = 1 / np.arange(1, 13)
    start /= start.sum()
    np.testing.assert_allclose(entropy[:, 0], -(start * np.log(start)).sum(), rtol=1e-5)
    _, predicted = records.curve("predicted", task="bandit", objective="grpo")
    a, b = (records.ends(name, task="bandit", objective="grpo")[:, None] for name in ("a", "b"))
    np.testing.assert_allclose(predicted, b - a * np.exp(entropy), rtol=1e-6)
    with pytest.raises(ValueError, match="--tasks is 'chess', it must be one of bandit"):
        entropy_law.Settings(tasks=("chess",))
