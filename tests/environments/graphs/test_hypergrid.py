import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.graphs.hypergrid import Hypergrid

pytestmark = pytest.mark.core


def cells_of(environment, chosen):
    return {tuple(cell) for cell in environment.coordinates(np.flatnonzero(chosen)).tolist()}


@pytest.mark.parametrize(
    ("dimensions", "side", "total", "peaks"),
    [
        (2, 8, 22.4, (1, 6)),
        (4, 8, 569.6, (1, 6)),
        # 1/4 < d and 3/10 < d < 4/10 hold for 5 and 2 coordinates on each side of the middle, d = |x / 19 - 1/2|.
        (2, 20, 0.1 * 400 + 0.5 * 10**2 + 2.0 * 4**2, (2, 3, 16, 17)),
    ],
)
def test_normaliser_and_modes(dimensions, side, total, peaks):
    grid = Hypergrid(dimensions, side)
    np.testing.assert_allclose(grid.outcome_space(0).rewards.astype(np.float64).sum(), total, rtol=1e-6)
    assert cells_of(grid, grid.modes()) == set(itertools.product(peaks, repeat=dimensions))


def test_a_cell_exactly_on_a_bound_is_outside():
    # side 6: |x / 5 - 1/2| is 0.5, 0.3, 0.1, 0.1, 0.3, 0.5, and 0.3 < 0.3 is false although 0.8 - 0.5 > 0.3 in floats.
    np.testing.assert_allclose(Hypergrid(1, 6).reward_table()[0], [0.6, 0.6, 0.1, 0.1, 0.6, 0.6], rtol=1e-6)
    # side 5: |x / 4 - 1/2| is 0.5, 0.25, 0, 0.25, 0.5, and 0.25 < 0.25 is false.
    np.testing.assert_allclose(Hypergrid(1, 5).reward_table()[0], [0.6, 0.1, 0.1, 0.1, 0.6], rtol=1e-6)


def test_a_grid_without_any_reward_is_refused():
    for side in range(2, 100):
        fields = {"dimensions": 2, "side": side, "base_reward": 0.0}
        has_peaks = Hypergrid(2, side, edge_reward=0.0).reward_table().max() > 1
        assert Hypergrid(**fields, peak_reward=0.0).outcome_space(0).target.sum() == pytest.approx(1)
        if has_peaks:
            assert Hypergrid(**fields, edge_reward=0.0).outcome_space(0).target.sum() == pytest.approx(1)
        else:
            with pytest.raises(ValueError, match=r"no cell has a reward: .* at a side other than 2, 3, 4, 5, 6, 11"):
                Hypergrid(**fields, edge_reward=0.0)
        with pytest.raises(ValueError, match="no cell has a reward"):
            Hypergrid(**fields, edge_reward=0.0, peak_reward=0.0)


def test_moves_raise_one_coordinate_or_stop():
    grid = Hypergrid(dimensions=3, side=4)
    state = grid.reset(jax.random.key(0), jnp.asarray(0), 0)
    for token in (0, 2, 2, 1, 2):
        state = grid.step(state, jnp.asarray(token))
    assert grid.coordinates(state).tolist() == [1, 1, 3]
    assert grid.legal(state).tolist() == [True, True, False, True]
    stopped = grid.step(state, jnp.asarray(3))
    assert grid.finished(stopped)
    assert grid.outcome_space(0).names[int(stopped) - grid.num_observations] == "(1, 1, 3)"


def test_features_are_one_hot_coordinates():
    grid = Hypergrid(dimensions=2, side=3)
    features = jax.jit(grid.features)(jnp.arange(9))
    assert features.shape == (9, grid.num_features)
    assert features.dtype == jnp.float32
    assert features[5].tolist() == [0, 1, 0, 0, 0, 1]
    assert len({tuple(row) for row in features.tolist()}) == 9
    np.testing.assert_array_equal(grid.features(jnp.asarray(5)), features[5])
