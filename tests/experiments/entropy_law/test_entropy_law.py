import numpy as np
import pytest

from experiments import entropy_law
from experiments.entropy_law import CLAIMS, KEEPERS, PAPERS, PRESETS, TASKS, curves
from ipsrl.records.tidy import Records
from ipsrl.study import claims


def decided(tasks=TASKS, **changed):
    """Claims about runs that obey the law, and keepers that do not, but for those changed: value, objective -> mean.

    Seeds differ by as much in all objectives, and by a spread if it is a pair of a mean and a spread.
    """
    usual = {"rest_error": 0.0, "ceiling_error": 0.0, "a": 0.1, "b": 1.1, "gain": 0.1, "constant_error": 0.1}
    rows = []
    for task in tasks:
        for name in (*PAPERS, *KEEPERS):
            for seed in range(6):
                values = {}
                for value, mean in (usual | {"ceiling_error": 0.2 * (name in KEEPERS)}).items():
                    mean, spread = np.broadcast_to(changed.get(value, {}).get(name, (mean, 0.0)), 2)
                    values[value] = float(mean + 0.001 * seed + spread * (-1) ** seed)
                rows.append({"task": task, "objective": name, "step": 1, "seed": seed, **values})
    return claims.decided(CLAIMS, Records(rows, ("task", "objective")))


def about(found, part):
    (held,) = (held for sentence, held in found.items() if part in sentence)
    return held


# Value, part of the sentence, means of GRPO that refute, and leave it undecided.
@pytest.mark.parametrize(
    ("value", "part", "refuting", "open_"),
    [
        ("rest_error", "the rest of training is foretold", (0.1, 0.0), (0.02, 0.02)),
        ("ceiling_error", "is foretold within 0.05 for GRPO, RLOO", (0.1, 0.0), (0.05, 0.05)),
        ("ceiling_error", "for GRPO if one arm is right", (0.1, 0.0), (0.05, 0.05)),
        ("a", "share a and b", (0.2, 0.0), (0.105, 0.01)),
        ("gain", "better than H", (-0.1, 0.0), (0.005, 0.05)),
        ("constant_error", "better than the last fitted reward", (0.0, 0.0), (0.005, 0.05)),
    ],
)
def test_claims_about_the_law_are_decided_by_intervals(value, part, refuting, open_):
    assert about(decided(), part) is True
    assert about(decided(**{value: {"grpo": refuting}}), part) is False
    assert about(decided(**{value: {"grpo": open_}}), part) is None


@pytest.mark.parametrize("where", ["on both tasks with ties", "if one arm is right"])
def test_the_ceilings_of_those_that_keep_entropy_are_compared_with_that_of_grpo(where):
    part = f"the ceiling of IPS-GRPO is over 0.05 further off than GRPO's {where}"
    assert about(decided(), part) is True
    # Off by more than 0.05, as GRPO is.
    assert about(decided(ceiling_error={"grpo": (-0.2, 0.0)}), part) is False
    assert about(decided(ceiling_error={"ips_grpo": (0.1, 0.1)}), part) is None
    assert about(decided(tasks=()), part) is None


def test_three_quarters_of_the_ceilings_must_be_near():
    part = "three quarters of all objectives and tasks"
    # Half of these six objectives keep entropy.
    assert about(decided(), part) is False
    one_far = dict.fromkeys(list(KEEPERS)[1:], (0.0, 0.0))
    assert about(decided(ceiling_error=one_far), part) is True
    assert about(decided(ceiling_error=one_far | {"grpo": (0.05, 0.05)}), part) is None
    assert about(decided(ceiling_error=one_far | {"grpo": (float("nan"), 0.0)}), part) is False


def test_all_tasks_take_the_catalog_and_a_penalty():
    names = {
        task: [curve.labels["objective"] for curve in curves(PRESETS["demo"]) if curve.labels["task"] == task]
        for task in TASKS
    }
    assert all(set(PAPERS) | set(KEEPERS) <= set(of_task) for of_task in names.values())
    assert min(map(len, names.values())) > 50


def test_a_run_holds_exact_rewards_and_entropies(smoke):
    _, records = smoke(entropy_law)
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
