import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.pessimism.critic import Pessimism
from experiments.pessimism.half_a_square import (
    MEMBERS,
    MOVES,
    NOISE,
    STEP,
    Square,
    applied,
    collected,
    following,
    learned,
    moves,
    network,
    predicted,
    returns,
    runs,
)


def test_a_random_map_has_rewards_of_variance_one_and_wind_of_half_a_step():
    places = jnp.asarray(np.random.default_rng(1).uniform(size=(200, 2)))
    actions = jnp.zeros(200, int)
    found = [Square.drawn(np.random.default_rng(seed)).moved(places, actions) for seed in range(50)]
    assert np.std([rewards for _, rewards in found]) == pytest.approx(1.0, rel=0.1)
    winds = np.array([displacements - MOVES[0] for displacements, _ in found])
    assert winds.std() == pytest.approx(0.5, rel=0.1)


def test_walls_end_a_move():
    places = following(jnp.array([[0.02, 0.5], [0.98, 0.99]]), jnp.array([[-1.0, 1.0], [2.0, 2.0]]))
    np.testing.assert_allclose(places, [[0.0, 0.5 + STEP], [1.0, 1.0]], rtol=1e-6)


def test_data_lie_left_of_the_border_and_are_noisy_in_rewards_only():
    square = Square.drawn(np.random.default_rng(0))
    places, actions, outcomes = collected(np.random.default_rng(1), square, 0.5, 4000)
    displacements, rewards = square.moved(places, actions)
    assert 0.45 < places[:, 0].max() <= 0.5 < 0.95 < places[:, 1].max()
    np.testing.assert_allclose(outcomes[:, :2], displacements, rtol=1e-5, atol=1e-5)
    assert np.std(outcomes[:, 2] - rewards) == pytest.approx(NOISE, rel=0.1)


def test_moves_follow_the_softmax_of_values():
    q = network(np.random.default_rng(0), len(MOVES))
    place = jnp.array([[0.3, 0.7]])
    expected = jax.nn.softmax(3.0 * applied(q, place))[0]
    uniform = (jnp.arange(2000) + 0.5) / 2000
    chosen = moves(q, jnp.repeat(place, 2000, axis=0), 3.0, uniform)
    np.testing.assert_allclose(np.bincount(chosen, minlength=4) / 2000, expected, atol=1e-3)


def test_returns_of_a_map_whose_rewards_are_equal_are_that_reward():
    """Up to what lies beyond the horizon, 0.9^60."""
    square = Square(jnp.zeros((1, 2)), jnp.zeros(1), jnp.array([[0.0, 0.0, 2.0]]))
    q = network(np.random.default_rng(0), len(MOVES))
    critic = Pessimism(rate=1.0, discount=0.9)
    found = returns(jax.random.key(0), square, q, jnp.full((5, 2), 0.5), jnp.zeros(5, int), critic)
    np.testing.assert_allclose(found, 2 * (1 - 0.9**60), rtol=1e-5)


def test_an_ensemble_knows_the_half_with_data_and_disagrees_in_the_other_one():
    squares, _, members, _ = learned((0, 1), 2000, 0.5, 2000)
    random = np.random.default_rng(5)
    actions = jnp.asarray(random.integers(0, 4, 300))
    for seed in range(2):
        square, ensemble = jax.tree.map(lambda leaf, seed=seed: leaf[seed], (squares, members))
        spread, error = [], []
        for left in (0.0, 0.5):
            places = jnp.asarray(random.uniform(size=(300, 2)) * [0.5, 1.0] + [left, 0.0])
            each = jnp.stack(
                [predicted(jax.tree.map(lambda leaf, m=m: leaf[m], ensemble), places, actions) for m in range(MEMBERS)]
            )
            rewards = square.moved(places, actions)[1]
            spread.append(float(each[..., 2].std(axis=0).mean()))
            error.append(float(jnp.abs(each.mean(axis=0)[:, 2] - rewards).mean()))
        assert error[0] < 0.2 < 0.5 < error[1]
        assert spread[1] > 3 * spread[0]


def test_more_weight_lowers_values_and_a_radius_of_0_is_combo():
    seeds = (0, 1)
    gaps = [
        runs(Pessimism(beta=beta, steps=1000, discount=0.9, rate=30.0), seeds, 100, 0.5).values["gap"].mean()
        for beta in (0.0, 0.1)
    ]
    assert gaps[0] > 0.1 > -0.1 > gaps[1]
    # Few steps, because training soon enlarges what rounding leaves of a radius that is nearly 0.
    found = [
        runs(Pessimism(beta=0.1, radius=radius, steps=20, discount=0.9, rate=30.0), seeds, 100, 0.5).values
        for radius in (0.0, 1e-9, 0.5)
    ]
    np.testing.assert_allclose(found[0]["gap"], found[1]["gap"], atol=1e-4)
    assert np.abs(found[0]["gap"] - found[2]["gap"]).max() > 1e-3


def test_measures_without_a_border_have_no_unvisited_places():
    points = runs(Pessimism(steps=5, discount=0.9, rate=30.0), (0, 1), 100, 1.0)
    assert "unvisited" not in points.values
    np.testing.assert_array_equal(points.values["valid"], points.values["gap"] <= 0)
