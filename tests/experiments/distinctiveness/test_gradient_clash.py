import jax.numpy as jnp
import numpy as np

from experiments.distinctiveness.gradient_clash import opposite_cosines


def test_opposite_signs_turn_equal_gradients_against_each_other():
    # One group: 0 and 1 are equal answers with opposite signs, 2 is perpendicular to both.
    gradients = jnp.asarray([[[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]]])
    advantages = jnp.asarray([[1.0, -0.5, -0.5]])
    close = jnp.zeros((1, 3, 3), bool).at[0, 0, 1].set(True).at[0, 1, 0].set(True)
    found = opposite_cosines(gradients, advantages, close)
    assert (found["near"], found["far"], found["gap"]) == (-1, 0, 1)
    # (1, 0) against -(0.5, 1).
    assert np.isclose(found["clash"], -0.5 / np.sqrt(1.25))


def test_without_opposite_signs_there_is_no_number():
    found = opposite_cosines(jnp.ones((2, 2, 3)), jnp.zeros((2, 2)), jnp.ones((2, 2, 2), bool))
    assert all(np.isnan(value) for value in found.values())
