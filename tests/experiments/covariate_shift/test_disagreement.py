import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.covariate_shift.disagreement import (
    compared,
    disagreement_regression,
    gate,
    least_squares,
    smooth_game,
    undefeated,
)

EPS = 0.1
# The numeric check of arXiv 2401.12216's idea: two inputs, the second one with probability 0.01 in training, f* = 0.
VALUES, LAW, TARGET = np.array([[EPS, EPS], [0.0, 0.8]]), np.array([[0.99], [0.01]]), np.zeros((2, 1))


def all_pairs(values, counts, sums, threshold, width=0.0):
    with jax.enable_x64(True):
        first, second = jnp.asarray(values)[:, None], jnp.asarray(values)[None]
        return np.asarray(compared(first, second, jnp.asarray(counts), jnp.asarray(sums), threshold, width))


def test_two_functions_of_which_least_squares_takes_the_wrong_one():
    risks = (VALUES**2 @ LAW)[:, 0]
    np.testing.assert_allclose(risks, [0.01, 0.0064], rtol=1e-12)
    losses = all_pairs(VALUES, LAW, TARGET, 3 * EPS)[..., 0].max(axis=1)
    np.testing.assert_allclose(losses, [0.0, 0.0063], rtol=1e-12)
    taken = {"least squares": least_squares(VALUES, LAW, TARGET)[0]}
    taken["disagreement"] = disagreement_regression(VALUES, LAW, TARGET, 3 * EPS)[0]
    errors = {name: VALUES[index, 1] ** 2 for name, index in taken.items()}
    assert errors == pytest.approx({"least squares": 0.64, "disagreement": 0.01})


def random_problem(seed, functions=12, inputs=9, sets=5):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(functions, inputs)) * rng.uniform(0.1, 1, (functions, 1))
    counts = rng.multinomial(40, np.full(inputs, 1 / inputs), size=sets).T
    return values, counts, rng.normal(size=(inputs, sets)) * np.sqrt(counts)


@pytest.mark.parametrize("width", [0.0, 0.2])
def test_losses_are_those_of_single_samples(width):
    rng = np.random.default_rng(3)
    f, g, places, y = rng.normal(size=6), rng.normal(size=6), rng.integers(0, 6, 30), rng.normal(size=30)
    counts, sums = np.bincount(places, minlength=6), np.bincount(places, y, minlength=6)
    weights = np.asarray(gate(jnp.asarray((f - g)[places]), 0.7, width))
    expected = np.mean(weights * ((f[places] - y) ** 2 - (g[places] - y) ** 2))
    assert all_pairs(np.stack([f, g]), counts, sums, 0.7, width)[0, 1] == pytest.approx(expected, rel=1e-6)


@settings(deadline=None)  # The first example compiles.
@given(st.integers(0, 50), st.floats(0.0, 2.0))
def test_the_exact_game_is_that_of_all_pairs(seed, threshold):
    values, counts, sums = random_problem(seed)
    losses = all_pairs(values, counts, sums, threshold)
    np.testing.assert_allclose(losses, -losses.swapaxes(0, 1), atol=1e-12)
    worst = losses.max(axis=1)
    taken = disagreement_regression(values, counts, sums, threshold)
    np.testing.assert_allclose(worst[taken, range(5)], worst.min(axis=0), atol=1e-10)


@settings(deadline=None)
@given(st.integers(0, 50))
def test_a_threshold_of_zero_is_least_squares_and_so_is_one_that_nothing_reaches(seed):
    values, counts, sums = random_problem(seed)
    for threshold in (0.0, 1e3):
        np.testing.assert_array_equal(
            disagreement_regression(values, counts, sums, threshold), least_squares(values, counts, sums)
        )


def test_a_narrow_smooth_gate_is_the_hard_one():
    values, counts, sums = random_problem(1)
    np.testing.assert_allclose(
        all_pairs(values, counts, sums, 0.3, 1e-7), all_pairs(values, counts, sums, 0.3), atol=1e-9
    )
    slope = jax.grad(lambda d: gate(d, 0.3, 0.1))(0.3)
    assert slope == pytest.approx(2.5, rel=1e-5)


def test_functions_that_no_sample_tells_apart_are_all_undefeated():
    unseen = np.array([[1.0], [0.0]])
    assert undefeated(VALUES, unseen, TARGET, 3 * EPS).all()
    assert disagreement_regression(VALUES, unseen, TARGET, 3 * EPS)[0] == 1
    assert undefeated(VALUES, LAW, TARGET, 3 * EPS)[:, 0].tolist() == [True, False]


def blend(parameter):
    """A class between the two functions."""
    return (1 - parameter) * VALUES[0] + parameter * VALUES[1]


def test_the_smooth_game_leaves_least_squares_for_what_is_within_the_bound():
    """Least squares is at s = 0.622, where 0.0099 (1 - s) = 0.007 (0.1 + 0.7 s): |f| = 0.535 on the rare input."""
    counts, sums = jnp.asarray(LAW[:, 0]), jnp.asarray(TARGET[:, 0])

    def loss(first, second):
        return compared(blend(first), blend(second), counts, sums, 3 * EPS, 0.01) / (3 * EPS) ** 2

    first, _ = smooth_game(loss, jnp.asarray(0.622), jnp.asarray(0.5), 2000, 1e-3)
    assert abs(blend(first)[1]) < 4 * EPS
