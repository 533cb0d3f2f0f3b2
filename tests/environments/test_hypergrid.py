import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.policies.policy import distribution


def cells_of(environment, chosen):
    return {tuple(cell) for cell in environment.coordinates(np.flatnonzero(chosen)).tolist()}


@pytest.mark.parametrize(("dimensions", "total"), [(2, 22.4), (4, 569.6)])
def test_normaliser_and_modes_at_side_eight(dimensions, total):
    grid = Hypergrid(dimensions, side=8)
    np.testing.assert_allclose(grid.outcome_space(0).rewards.astype(np.float64).sum(), total, rtol=1e-6)
    assert cells_of(grid, grid.modes()) == set(itertools.product((1, 6), repeat=dimensions))


def test_probability_of_a_mode_at_side_eight():
    grid = Hypergrid()
    np.testing.assert_allclose(grid.outcome_space(0).target[grid.modes()], 0.11607, atol=5e-6)


def test_side_twenty():
    """1/4 < d and 3/10 < d < 4/10 hold for 5 and 2 coordinates on each side of the middle, d = |x / 19 - 1/2|."""
    grid = Hypergrid(dimensions=2, side=20)
    assert cells_of(grid, grid.modes()) == set(itertools.product((2, 3, 16, 17), repeat=2))
    np.testing.assert_allclose(grid.reward_table().sum(), 0.1 * 400 + 0.5 * 10**2 + 2.0 * 4**2, rtol=1e-6)


def test_a_cell_exactly_on_a_bound_is_outside():
    # side 6: |x / 5 - 1/2| is 0.5, 0.3, 0.1, 0.1, 0.3, 0.5, and 0.3 < 0.3 is false although 0.8 - 0.5 > 0.3 in floats.
    np.testing.assert_allclose(Hypergrid(1, 6).reward_table()[0], [0.6, 0.6, 0.1, 0.1, 0.6, 0.6], rtol=1e-6)
    # side 5: |x / 4 - 1/2| is 0.5, 0.25, 0, 0.25, 0.5, and 0.25 < 0.25 is false.
    np.testing.assert_allclose(Hypergrid(1, 5).reward_table()[0], [0.6, 0.1, 0.1, 0.1, 0.6], rtol=1e-6)


def test_distance_of_a_collapsed_and_of_a_uniform_distribution_from_the_target():
    """Numbers of arXiv 2601.21669, table 1: 1.7679 / 64 is its 0.028 of GRPO."""
    grid = Hypergrid()
    target = grid.outcome_space(0).target
    to_one_six = [0] + [1] * 6
    logits = np.full((grid.num_observations, grid.vocabulary_size), -1e4, np.float32)
    state = 0
    for token in [*to_one_six, 2]:
        logits[state, token] = 1e4
        state = int(grid.step(jnp.asarray(state), jnp.asarray(token)))
    collapsed = grid.terminal_distribution(jax.nn.log_softmax(logits))
    assert grid.outcome_space(0).names[int(collapsed.argmax())] == "(1, 6)"
    np.testing.assert_allclose(np.abs(collapsed - target).sum(), 1.7679, atol=5e-5)
    np.testing.assert_allclose(np.abs(1 / 64 - target).mean(), 0.0167, atol=5e-5)


def test_moves_raise_one_coordinate_or_stop():
    grid = Hypergrid(dimensions=3, side=4)
    state = grid.reset(jnp.asarray(0))
    for token in (0, 2, 2, 1, 2):
        state = grid.step(state, jnp.asarray(token))
    assert grid.coordinates(state).tolist() == [1, 1, 3]
    assert grid.legal(state).tolist() == [True, True, False, True]
    stopped = grid.step(state, jnp.asarray(3))
    assert grid.finished(stopped)
    assert grid.outcome_space(0).names[int(stopped) - grid.num_observations] == "(1, 1, 3)"


def test_outcomes_reshape_to_the_grid():
    grid = Hypergrid(dimensions=2, side=8)
    modes = grid.modes().reshape(8, 8)
    assert modes[1, 6]
    assert not modes[0, 6]
    names = np.array(grid.outcome_names(), object).reshape(8, 8)
    assert names[2, 5] == "(2, 5)"


def test_features_are_one_hot_coordinates():
    grid = Hypergrid(dimensions=2, side=3)
    features = jax.jit(grid.features)(jnp.arange(9))
    assert features.shape == (9, grid.num_features)
    assert features.dtype == jnp.float32
    assert features[5].tolist() == [0, 1, 0, 0, 0, 1]
    assert len({tuple(row) for row in features.tolist()}) == 9
    np.testing.assert_array_equal(grid.features(jnp.asarray(5)), features[5])


def test_distribution_of_four_dimensions_sums_to_one():
    grid = Hypergrid(dimensions=4, side=8)
    states = jnp.arange(grid.num_observations)
    logits = jax.random.normal(jax.random.key(0), (len(states), grid.vocabulary_size))
    probs = jax.jit(grid.terminal_distribution)(distribution(logits, grid.legal(states), 1.0))
    assert probs.shape == (4096,)
    np.testing.assert_allclose(probs.sum(), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimensions": 0}, "dimensions is 0, it must be at least 1"),
        ({"side": 1}, "side is 1, it must be at least 2"),
        ({"dimensions": 16, "side": 8}, "states fit into int32; 8[*][*]16 does not."),
        ({"base_reward": -0.1}, "base_reward is -0.1, it must be finite and not negative"),
        ({"peak_reward": float("nan")}, "peak_reward is nan, it must be finite and not negative"),
    ],
)
def test_bad_arguments_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Hypergrid(**fields)
