import math

import numpy as np
import pytest

from experiments.molecules.measures import circles, evaluations_until, internal_diversity, similarities

FOUR = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 0]], bool)


def test_evaluations_until_enough_are_found():
    rewards = np.array([0.1, 0.8, 0.2, 0.9, 0.85])
    assert [evaluations_until(rewards, 0.8, number) for number in (1, 2, 3)] == [2, 4, 5]
    assert math.isnan(evaluations_until(rewards, 0.8, 4))
    assert math.isnan(evaluations_until(np.array([]), 0.8))
    assert evaluations_until(np.ones(200), 1.0) == 100


def test_internal_diversity_by_hand():
    # All pairs, each molecule with itself among them; two without any bit are equal, as in MOSES.
    assert internal_diversity(similarities(FOUR)) == pytest.approx(1 - (4 + 2 * (2 / 3 + 1 / 4)) / 16)
    assert internal_diversity(similarities(FOUR[:1])) == 0
    assert internal_diversity(similarities(FOUR[[1, 1, 1]])) == 0
    assert math.isnan(internal_diversity(similarities(FOUR[:0])))


def test_circles_by_hand():
    # Distances: 1/3 between the first two, 3/4 between the second and the third, otherwise 1.
    assert circles(similarities(FOUR)) == 3
    # The second takes the third's place as well as the first's.
    assert circles(similarities(FOUR[[1, 0, 2, 3]])) == 2
    assert circles(similarities(FOUR[[0, 0, 0]])) == 1
    assert circles(similarities(FOUR[:0])) == 0
