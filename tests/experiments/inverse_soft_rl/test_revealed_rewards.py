import jax
import numpy as np
import pytest

from experiments.inverse_soft_rl.revealed_rewards import (
    CANDIDATES,
    Process,
    at_discount,
    errors,
    in_another_kernel,
    mixing_time,
    of_one_state,
    of_policies,
)
from experiments.inverse_soft_rl.soft_bellman import regret
from tests.experiments.inverse_soft_rl.problems import expert

REWARDS = np.array([1.0, 1.0, 0.5, 0.0])


def measured(probs, rewards=REWARDS, draws=1000):
    """The measures of `of_policies`, `[N]` each, for policies `[N, K]`."""
    found = of_policies(np.log(probs)[:, None], rewards, range(len(probs)), draws)
    return {name: values[:, 0] for name, values in found.items()}


def test_a_policy_over_outcomes_reveals_its_log_probabilities():
    probs = np.array([[0.4, 0.1, 0.3, 0.2], [0.25, 0.25, 0.25, 0.25]])
    expected = np.log(probs) - (probs * np.log(probs)).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(of_one_state(np.log(probs)), expected, atol=1e-14)


def test_gaps_by_hand():
    found = measured(np.array([[0.4, 0.1, 0.3, 0.2]]))
    best = np.log([0.4, 0.1]).mean()
    assert found["return"] == pytest.approx(0.65)
    assert found["gap of equals"] == pytest.approx(np.log(4))
    assert found["gap of halves"] == pytest.approx(best - np.log(0.3))
    assert found["gap to wrong"] == pytest.approx(best - np.log(0.2))
    assert "gap of halves" not in measured(np.full((1, 4), 0.25), np.array([1.0, 1.0, 0.0, 0.0]))


def test_what_is_never_demonstrated_looks_like_what_is_wrong():
    collapsed = np.array([[1 - 3e-9, 1e-9, 1e-9, 1e-9]])
    found = measured(collapsed)
    # One right outcome is seen, two are not: these tie with the wrong one.
    assert found["told apart"] == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert found["unseen"] == pytest.approx(2 / 3)
    # Without the favourite all others are alike: their mean reward.
    assert found["without the favourite"] == pytest.approx(0.5)
    kept = measured(np.array([[0.4, 0.35, 0.24, 0.01]]))
    assert kept["told apart"] == 1
    assert kept["unseen"] == 0
    assert kept["without the favourite"] > 0.75


def test_the_process_of_seed_0_is_that_of_the_check():
    transitions, rewards, log_policy, law = expert()
    with jax.enable_x64(True):
        process, slow = Process.drawn(0, 0.9), Process.drawn(0, 0.9, held=0.9)
        np.testing.assert_array_equal(process.transitions, transitions)
        np.testing.assert_array_equal(process.rewards, rewards)
        np.testing.assert_allclose(process.log_policy, log_policy)
        np.testing.assert_allclose(process.law, law)
        fast_time = mixing_time(np.exp(process.log_policy), process.transitions)
        assert mixing_time(np.exp(slow.log_policy), slow.transitions) > 8 * fast_time
        np.testing.assert_allclose(process.with_other_moves(0, 0.0), transitions)
        assert np.abs(process.with_other_moves(0, 1.0) - transitions).max() > 0.5


def test_where_nothing_changed_every_consistent_reward_is_as_good():
    for candidate in CANDIDATES:
        found = in_another_kernel(candidate, 0.9, 0.0, (0, 1, 2)).values["regret"]
        assert np.abs(found).max() < 1e-12
    at_all = {candidate: in_another_kernel(candidate, 0.9, 1.0, (0, 1)).values["regret"] for candidate in CANDIDATES}
    assert np.abs(at_all["expert's"]).max() < 1e-12
    assert min(of.min() for candidate, of in at_all.items() if candidate != "expert's") > 1e-4
    # V = 0 keeps the old policy everywhere.
    with jax.enable_x64(True):
        process = Process.drawn(1, 0.9)
        moves = process.with_other_moves(1, 1.0)
        old = float(regret(process.log_policy, process.rewards, moves, 0.9))
    assert at_all["log-policy"][1, 0] == pytest.approx(old, rel=1e-9)


def test_kinds_of_estimates_differ_as_they_say():
    lengths, seeds = (300, 30_000), (0, 1, 2)
    found = {
        kind: errors(kind, 0.9, lengths, seeds, 0.9, 1.0).values
        for kind in ("tabular", "slow chain", "uniform weights", "rank 1")
    }
    for kind in ("tabular", "slow chain", "uniform weights"):
        assert (found[kind]["reward error"][:, 1] < found[kind]["reward error"][:, 0] / 4).all()
        assert (found[kind]["regret"][:, 1] < 0.01).all()
    assert (found["rank 1"]["reward error"] > 0.1).all()
    assert (found["rank 1"]["divergence"] > 0).all()
    assert found["rank 1"]["divergence"][:, 1].max() < 0.01 < found["rank 1"]["divergence of the class"]
    np.testing.assert_array_equal(found["tabular"]["divergence"], found["uniform weights"]["divergence"])
    assert found["tabular"]["apart from the invariant law's"] == 0
    assert found["uniform weights"]["apart from the invariant law's"] == pytest.approx(0.298, abs=1e-3)
    assert found["slow chain"]["steps to mix"] == pytest.approx(12.1, abs=0.1)


def test_at_a_discount():
    values = at_discount(0.97, 10_000, tuple(range(8))).values
    assert values["limit"] == pytest.approx(13.73, abs=0.01)
    assert values["n error^2"].mean() == pytest.approx(values["limit"], rel=0.5)
    assert values["norm revealed"] < values["norm of the expert's"]
    assert values["policy off by"] < 1e-13
