"""Objectives of sets of answers, by numbers and identities derived by hand."""

import numpy as np
import pytest

from ipsrl.objectives.catalog.sets import BestOfSets, weight_vectors
from tests.objectives.groups import advantages_of, assert_close, rollouts_of


def test_sets_that_nearly_never_fail_have_advantages():
    """With 700 of 1,100 correct, 500 answers all fail with a probability that no float holds."""
    rewards = np.float32(np.arange(1100) < np.array([[1], [700]]))
    group = rollouts_of(np.zeros((2, 1100, 1)), rewards=rewards)
    few, many = advantages_of("pass_at_k(k=500)", group)
    assert_close(few[:2], np.sqrt(600 / 500) * np.array([1, -1 / 1099]))
    assert not many.any()


def test_sets_beside_the_whole_group_are_refused():
    with pytest.raises(ValueError, match="needs a k below the group's size"):
        BestOfSets(k=None, baseline="other_sets")


def test_weight_vectors_are_a_grid_with_equal_means():
    assert_close(weight_vectors(2, 4), np.array([[1, 7], [3, 5], [5, 3], [7, 1]]) / 8)
    assert_close(weight_vectors(3, 2), np.array([[1, 1, 4], [1, 4, 1], [4, 1, 1]]) / 6)
    assert_close(weight_vectors(1, 9), [[1]])
    assert_close(weight_vectors(3, 1), np.ones((1, 3)) / 3)
    for number, divisions, vectors in ((2, 16, 16), (3, 16, 136), (4, 16, 816)):
        grid = weight_vectors(number, divisions)
        assert grid.shape == np.unique(grid, axis=0).shape == (vectors, number)
        assert_close(grid.sum(axis=1), np.ones(vectors))
        assert_close(grid.mean(axis=0), np.full(number, 1 / number))
    # Of a flat Dirichlet distribution: E[max(w, 1 - w)] = 3/4, and E[w_1^2] = 2 / (M (M + 1)).
    assert weight_vectors(2, 16).max(axis=1).mean() == pytest.approx(0.75, abs=1e-12)
    assert (weight_vectors(3, 400)[:, 0] ** 2).mean() == pytest.approx(1 / 6, rel=0.01)
