import jax
import numpy as np
import pytest

from experiments.pessimism.critic import Model, Pessimism, expected_visits, q_values
from experiments.pessimism.half_a_map import COVERED, GOAL, SIDE, START, collected, grid, learned, runs


def test_the_grid():
    transitions, rewards = grid()
    np.testing.assert_allclose(transitions.sum(axis=-1), 1.0)
    # Up from below the goal: nine in ten, and a quarter of the slips.
    assert rewards[GOAL - SIDE, 0] == pytest.approx(0.9 + 0.1 / 4)
    assert (transitions[GOAL, :, START] == 1).all()
    assert (GOAL % SIDE, GOAL // SIDE, rewards[GOAL].max()) == (COVERED - 1, SIDE - 1, 0.0)
    # Left of the left edge one stays.
    assert transitions[START, 2, START] == pytest.approx(0.9 + 0.1 / 2)


def test_data_cover_the_left_half_only():
    visits, rewards = collected(np.random.default_rng(0), 2000)
    counts = visits.sum(axis=-1)
    columns = np.arange(SIDE * SIDE) % SIDE
    assert counts.sum() == 2000
    assert counts[columns >= COVERED].sum() == 0
    assert (counts[columns < COVERED] > 0).mean() > 0.9
    np.testing.assert_allclose(rewards.sum(), visits[..., GOAL].sum() - visits[GOAL, :, GOAL].sum())
    # No transition that the grid does not have.
    assert not visits[grid()[0] == 0].any()


def test_the_model_errs_only_where_there_are_no_data():
    model, counts = learned(0, 200_000, 0.1)
    transitions, rewards = grid()
    often = counts > 1000
    np.testing.assert_allclose(np.asarray(model.rewards)[often], rewards[often], atol=0.06)
    np.testing.assert_allclose(np.asarray(model.transitions)[often], transitions[often], atol=0.06)
    unseen = counts == 0
    assert np.asarray(model.rewards)[unseen].std() == pytest.approx(0.1, rel=0.2)
    np.testing.assert_allclose(np.asarray(model.transitions)[unseen].max(axis=-1), 1.0)


def test_measures_without_a_penalty():
    """With rewards guessed at 0 and many data the model's best policy is nearly the grid's."""
    points = runs(Pessimism(steps=60), [0, 1], 100_000, 0.0).values
    transitions, rewards = grid()
    best = np.zeros(rewards.shape)
    for _ in range(1000):
        best = rewards + 0.95 * transitions @ best.max(axis=1)
    assert points["return"].shape == (2, 1)
    np.testing.assert_allclose(points["return"], best[START].max(), rtol=0.02)
    np.testing.assert_allclose(points["gap"], 0.0, atol=0.05)
    np.testing.assert_allclose(points["visited"], 0.0, atol=0.05)
    np.testing.assert_array_equal(points["valid"], points["gap"] <= 0)


def test_errors_are_above_the_true_values_of_the_learned_policy():
    """A policy that is barely improved is uniform, whose values are those of two linear systems."""
    points = runs(Pessimism(steps=1, rate=1e-9), [3], 2000, 0.1).values
    with jax.enable_x64(True):
        model, counts = learned(3, 2000, 0.1)
        uniform = np.full(counts.shape, 0.25)
        learned_values, true_values = (
            q_values(each, uniform, 0.95, expected_visits(each, uniform, 0.95)) for each in (model, Model(*grid()))
        )
        above = np.asarray(learned_values - true_values)
    assert points["unvisited"].item() == pytest.approx(above[counts == 0].mean(), abs=1e-6)
    assert points["visited"].item() == pytest.approx(above[counts > 0].mean(), abs=1e-6)
    assert points["below"].item() == pytest.approx((above <= 0).mean(), abs=0.01)
