import numpy as np
import pytest

from experiments import entropy_law
from ipsrl.records.tidy import NotRecorded
from tests.experiments.recorded import made_up


def records(errors):
    """Task, objective -> the ceiling error of each seed."""
    return made_up(("task", "objective"), {arm: {"ceiling_error": of_seeds} for arm, of_seeds in errors.items()})


def test_of_each_seed_the_near_ceilings_are_counted():
    near = {("bandit", "grpo"): (0.01, 0.2), ("bandit", "rloo"): (-0.04, -0.3), ("grid", "grpo"): (0.06, 0.05)}
    found = records(near | {("grid", "rloo"): (float("nan"), 0.0)})
    assert entropy_law.share_near(found).tolist() == [0.5, 0.5]
    with pytest.raises(NotRecorded):
        entropy_law.share_near(records({}))


def test_ceilings_are_off_in_both_directions_and_compared_seed_by_seed():
    found = records({("bandit", "ips_grpo"): (0.3, -0.4), ("bandit", "grpo"): (-0.1, 0.1), ("grid", "grpo"): (9, 9)})
    (comparison,) = entropy_law.further_off("ips_grpo", ("bandit",)).parts
    np.testing.assert_allclose(comparison.number.of_seeds(found).values, [0.2, 0.3])
    assert comparison.limit == entropy_law.NEAR


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
