import jax
import numpy as np
import pytest

from experiments.train_and_test_time import BUDGETS, line_fits
from experiments.train_and_test_time.budgets import TOYS, first_wrong, toys
from experiments.train_and_test_time.test_time import inflated
from ipsrl.policies.state_table import log_probs_table
from tests.experiments.recorded import courses


def test_the_fit_of_a_line_by_hand():
    """A line, and a curve whose correlation with its places is 2 / sqrt(2 * 26 / 3)."""
    values = {"exp_entropy": [range(3)] * 2, "accuracy": [(0.1, 0.2, 0.3), (0.0, 3.0, 1.0)]}
    assert line_fits(courses((), {(): values}, range(3))) == pytest.approx([1.0, 1 / (2 * 14 / 3)])


def test_the_first_answer_is_wrong_where_more_variance_can_help():
    helped = {}
    for toy, (bandit, policy) in toys().items():
        log_probs = np.asarray(log_probs_table(policy, policy.init(jax.random.key(0)), bandit), np.float64)
        right = bandit.reward_table() > 0
        wrong = first_wrong(log_probs, right)
        assert 0 < wrong.sum() < len(wrong)
        helped[toy] = [(inflated(log_probs, budget) * right).sum(axis=-1)[wrong].mean() for budget in BUDGETS]
    # Of free logits there is an end: equal probabilities of 16 arms, four of them right.
    assert (np.diff(helped[TOYS[0]]) > 0).all()
    assert max(helped[TOYS[0]]) < 0.25
    assert helped[TOYS[1]] == pytest.approx([0.124, 0.157, 0.173, 0.167, 0.151], abs=1e-3)
