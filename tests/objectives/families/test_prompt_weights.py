"""Weights of prompts, by numbers derived by hand."""

from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from tests.objectives.groups import advantages_of, assert_close, rollouts_of
from tests.objectives.mean_updates import mean_update

LOGITS = jnp.array([0.4, -0.3, 1.1, 0.0])
CORRECT = jnp.array([1.0, 1.0, 0.0, 0.0])


def one_group(rewards):
    return rollouts_of(np.zeros((1, len(rewards), 1)), rewards=np.float32([rewards]))


def test_garl_divides_by_a_power_of_the_success_rate():
    """A rate of 1/4, whose square root is 1/2."""
    rare = one_group([1, 0, 0, 0])
    assert_close(advantages_of("garl(q=0.5)", rare), [[1.5, -0.5, -0.5, -0.5]])
    assert_close(advantages_of("garl(q=0.0)", rare), advantages_of("dr_grpo", rare))
    assert_close(advantages_of("garl(q=1.0)", rare), advantages_of("maxrl", rare))


@pytest.mark.parametrize(("q", "group"), [(0.0, 4), (0.75, 2), (0.75, 8), (1.0, 4)])
def test_garl_amplifies_the_gradient_of_the_success_probability(q, group):
    """The factor of its docstring; at q = 1 that of MaxRL."""

    def success(logits):
        return jax.nn.softmax(logits) @ CORRECT

    def factor(p):
        others = np.arange(group)
        chances = [comb(group - 1, c) * p**c * (1 - p) ** (group - 1 - c) for c in others]
        share = (others + 1) / group
        return chances @ ((1 - share) * share**-q + (others / group) ** (1 - q) * (others > 0))

    p = float(success(LOGITS))
    found = mean_update(make(f"garl(q={q})"), LOGITS, CORRECT, group)
    np.testing.assert_allclose(found, factor(p) * jax.grad(success)(LOGITS), rtol=1e-4, atol=1e-6)
    assert_close(factor(1e-9), (group - 1) / group * group**q)
    if q == 1.0:
        assert_close(factor(p), (1 - (1 - p) ** (group - 1)) / p)
