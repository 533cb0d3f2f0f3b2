import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives.estimators.discounting import BLOCK, discounted_sums
from tests.objectives.groups import assert_close


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.97, 0.3])
@pytest.mark.parametrize("length", [1, BLOCK - 1, BLOCK, 3 * BLOCK + 5])
def test_sums_and_gradient_are_those_of_the_definition(length, discount, reverse):
    values = np.random.default_rng(0).normal(size=(2, 3, length)).astype(np.float32)
    distance = np.subtract.outer(np.arange(length), np.arange(length)) * (-1 if reverse else 1)
    discounts = np.where(distance >= 0, discount ** np.maximum(distance, 0.0), 0.0)  # [t, u]
    assert_close(discounted_sums(jnp.array(values), discount, reverse), values @ discounts.T)
    gradient = jax.grad(lambda values: (discounted_sums(values, discount, reverse) ** 2).sum())(jnp.array(values))
    np.testing.assert_allclose(gradient, 2 * values @ discounts.T @ discounts, rtol=1e-4, atol=1e-4)


def test_blocks_do_not_let_large_numbers_pass_to_small_ones():
    """Values that are discounted to nothing leave no rounding behind."""
    values = jnp.zeros(4 * BLOCK).at[0].set(1e8).at[-1].set(1.0)
    assert_close(discounted_sums(values, 0.5)[-1], 1.0)
    assert_close(discounted_sums(values[::-1], 0.5, reverse=True)[0], 1.0)
