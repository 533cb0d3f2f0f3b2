import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ipsrl.objectives.estimators.ranks import kth_largest, largest, largest_of_rows, quantile, random_order

EVERY_LARGEST = jax.jit(jax.vmap(kth_largest, (None, None, 0)))
NUMBERS = st.floats(-(2.0**60), 2.0**60, width=32, allow_subnormal=False) | st.sampled_from([0.0, -0.0, 1.0])


@settings(deadline=None, max_examples=40)
@given(st.lists(NUMBERS, min_size=1, max_size=9))
@example([-np.inf, np.inf, 3.0])
@example([0.0, -0.0, 0.0, -1.0])
def test_kth_largest_is_that_of_a_sort(numbers):
    """Whatever lies outside the mask."""
    values = jnp.array([*numbers, np.nan, np.inf, -np.inf, *[7.0] * (9 - len(numbers))], jnp.float32).reshape(1, 1, -1)
    mask = jnp.arange(values.size).reshape(values.shape) < len(numbers)
    descending = np.sort(np.float32(numbers))[::-1]
    found = EVERY_LARGEST(values, mask, jnp.minimum(jnp.arange(1.0, 10.0), len(numbers)))
    np.testing.assert_array_equal(found[: len(numbers)], descending)
    for count in (1, len(numbers), len(numbers) + 5):
        chosen = largest(values, mask, jnp.float32(count))
        threshold = descending[min(count, len(numbers)) - 1]
        assert (np.asarray(chosen) == (np.asarray(mask) & (np.asarray(values) >= threshold))).all()


def test_nothing_is_chosen_where_there_is_nothing():
    values = jnp.ones((2, 2, 2))
    assert not largest(values, jnp.zeros((2, 2, 2), bool), jnp.float32(3)).any()


@settings(deadline=None, max_examples=25)
@given(count=st.integers(1, 40), percent=st.integers(0, 100), seed=st.integers(0, 100))
def test_quantile_is_numpy_s(count, percent, seed):
    values = np.random.default_rng(seed).choice([0.0, 0.25, 0.5, 1.5, 1.75, 3.0], 60).astype(np.float32)
    found = quantile(jnp.array(values).reshape(3, 4, 5), (jnp.arange(60) < count).reshape(3, 4, 5), percent / 100)
    np.testing.assert_allclose(found, np.quantile(values[:count], percent / 100), atol=1e-5)


@pytest.mark.parametrize("length", [1, 33, 8160, 8161])
def test_rows_of_any_length_are_ranked_apart(length):
    """8160 tokens in columns of 32 are as many as a byte can count."""
    rng = np.random.default_rng(length)
    values = rng.normal(size=(2, 3, length)).astype(np.float32)
    values[..., : length // 2] = 1.5
    mask = rng.random(values.shape) < 0.9
    mask[0, 0] = True
    count = np.ceil(mask.sum(axis=-1) * [[0.2, 0.5, 1.0], [0.4, 0.9, 0.01]])
    descending = -np.sort(np.where(mask, -values, np.inf), axis=-1)
    expected = np.take_along_axis(descending, np.maximum(count.astype(int)[..., None] - 1, 0), axis=-1)[..., 0]
    found = kth_largest(jnp.array(values), mask, jnp.float32(count), axis=-1)
    np.testing.assert_array_equal(found[count > 0], expected[count > 0])
    assert (
        kth_largest(jnp.array(values), mask, jnp.float32(mask.sum() // 3)) == np.sort(values[mask])[-(mask.sum() // 3)]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.uint32])
def test_ties_in_a_row_go_to_the_earlier(dtype):
    rng = np.random.default_rng(0)
    values, mask = rng.integers(0, 4, (5, 6, 7)).astype(dtype), rng.random((5, 6, 7)) < 0.8
    count = rng.integers(0, mask.sum(axis=-1) + 1)
    chosen = np.asarray(largest_of_rows(jnp.array(values), mask, jnp.array(count)))
    for index in np.ndindex(count.shape):
        best = sorted(np.flatnonzero(mask[index]), key=lambda place: (-float(values[index][place]), place))
        assert set(np.flatnonzero(chosen[index])) == set(best[: count[index]])


def test_random_order_is_uniform_and_apart_for_each_token():
    """Odd lengths too; pairs that share a word are as often in either order as others."""
    order = np.asarray(random_order(jax.random.split(jax.random.key(0), 3000), (2, 5)))
    assert order.shape == (3000, 2, 5)
    assert len(np.unique(order)) >= order.size - 2  # 30000 of 2^32
    share = order / 2.0**32
    np.testing.assert_allclose(share.mean(axis=0), 0.5, atol=5 * np.sqrt(1 / 12 / 3000))
    correlation = np.corrcoef(share.reshape(3000, -1).T) - np.eye(10)
    np.testing.assert_allclose(correlation, 0.0, atol=5 / np.sqrt(3000))
