"""Tests of fields: the same velocities however many policies a program takes, and their derivative."""

import jax
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.dynamics.field import Batch, Field, _program
from ipsrl.objectives.objective import is_proportional

OBJECTIVE, REWARDS = objectives.make("ips_grpo"), (1.0, 0.6, 0.3)
LOGITS = np.random.default_rng(0).normal(size=(5, 3))


@pytest.mark.parametrize("at_once", [1, 3, 5, 8])
def test_policies_in_parts_have_the_same_velocities(at_once):
    whole = Field(OBJECTIVE, REWARDS, 4)(LOGITS)
    np.testing.assert_allclose(Field(OBJECTIVE, REWARDS, 4, at_once=at_once)(LOGITS), whole, rtol=1e-12, atol=1e-15)


def test_any_number_of_policies_is_one_program():
    _program.cache_clear()
    field = Field(OBJECTIVE, REWARDS, 4, at_once=2)
    assert field.scale > 0
    assert field(LOGITS).shape == LOGITS.shape
    assert field.jacobians(LOGITS).shape == (*LOGITS.shape, 3)
    assert _program(Batch(OBJECTIVE, 4, None, None, None))._cache_size() == 1


def test_the_jacobian_is_the_derivative_of_the_expected_update():
    with jax.enable_x64(True):

        @jax.jit
        @jax.vmap
        def update(logits):
            return expected_update(OBJECTIVE, logits, np.array(REWARDS), 4, num_keys=1)

        step = 1e-5
        columns = [(update(LOGITS + e) - update(LOGITS - e)) / (2 * step) for e in step * np.eye(3)]
    expected = np.stack(columns, axis=-1)
    np.testing.assert_allclose(Field(OBJECTIVE, REWARDS, 4).jacobians(LOGITS), expected, rtol=0, atol=1e-9)


def test_a_surrogate_is_looked_at_while_its_program_is_traced():
    """Nothing is corrected where the policy has sampled: velocities are those without."""
    corrected = objectives.make("ips_grpo(correction=truncated(1.2))")
    is_proportional.cache_clear()
    np.testing.assert_allclose(Field(corrected, REWARDS, 4)(LOGITS), Field(OBJECTIVE, REWARDS, 4)(LOGITS), atol=1e-12)
