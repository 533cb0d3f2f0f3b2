"""Numbers by hand of four small fingerprints, and what the blocks must not change."""

import itertools
import math

import numpy as np
import pytest

from experiments.molecules import measures
from experiments.molecules.measures import circles, evaluations_until, histogram_distance, internal_diversity, passing

FOUR = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 0]], bool)


def random_bits(number, bits=64, share=0.3):
    return np.random.default_rng(0).random((number, bits)) < share


def similarities(bits):
    both = bits.astype(int) @ bits.T
    sizes = bits.sum(axis=1)
    either = sizes[:, None] + sizes - both
    return np.where(either > 0, both / np.maximum(either, 1), 1)


def test_the_yield_counts_rewards_from_the_threshold_on():
    assert passing(np.array([0.8, 0.79, 0.0, 0.9]), 0.8) == 2
    assert passing(np.array([]), 0.8) == 0


def test_evaluations_until_enough_are_found():
    rewards = np.array([0.1, 0.8, 0.2, 0.9, 0.85])
    assert [evaluations_until(rewards, 0.8, number) for number in (1, 2, 3)] == [2, 4, 5]
    assert math.isnan(evaluations_until(rewards, 0.8, 4))
    assert math.isnan(evaluations_until(np.array([]), 0.8))
    assert evaluations_until(np.ones(200), 1.0) == 100


def test_internal_diversity_by_hand():
    # All pairs, each molecule with itself among them; two without any bit are equal, as in MOSES.
    assert internal_diversity(FOUR) == pytest.approx(1 - (4 + 2 * (2 / 3 + 1 / 4)) / 16)
    assert internal_diversity(FOUR[:1]) == 0
    assert internal_diversity(FOUR[[1, 1, 1]]) == 0
    assert math.isnan(internal_diversity(FOUR[:0]))


def test_circles_by_hand():
    # Distances: 1/3 between the first two, 3/4 between the second and the third, otherwise 1.
    assert circles(FOUR) == 3
    # At 3/4 the second takes the third's place as well as the first's.
    assert circles(FOUR[[1, 0, 2, 3]]) == 2
    assert circles(FOUR[[1, 0, 2, 3]], 0.74) == 3
    assert circles(FOUR, 0.3) == circles(FOUR, 0.0) == 4
    assert circles(FOUR[[0, 0, 0]], 0.0) == 1
    assert circles(FOUR[:0]) == 0


def test_a_distance_is_near_where_its_decimal_is_reached():
    for bits in range(1, 101):
        one, other = np.ones((1, 100), bool), np.arange(100)[None] < bits
        # bits / 100 are shared.
        distance = (100 - bits) / 100
        assert circles(np.concatenate([one, other]), distance) == 1
        if distance > 0:
            assert circles(np.concatenate([one, other]), distance - 1e-9) == 2


def test_a_greedy_count_is_at_most_the_largest_set():
    bits = random_bits(10, 12)
    far = similarities(bits) < 0.5
    largest = max(
        size
        for size in range(1, 11)
        for chosen in itertools.combinations(range(10), size)
        if all(far[pair] for pair in itertools.combinations(chosen, 2))
    )
    assert 1 < circles(bits, 0.5) <= largest


def test_blocks_change_nothing(monkeypatch):
    bits = random_bits(37)
    alike, distances, chosen = similarities(bits), (0.6, 0.75, 0.85), []
    for number in range(len(bits)):
        if all(1 - alike[number, before] > 0.75 for before in chosen):
            chosen.append(number)
    found = [circles(bits, distance) for distance in distances]
    assert found[1] == len(chosen)
    assert internal_diversity(bits) == pytest.approx(1 - alike.mean(), rel=1e-6)
    monkeypatch.setattr(measures, "BLOCK", 8)
    assert internal_diversity(bits) == pytest.approx(1 - alike.mean(), rel=1e-6)
    assert [circles(bits, distance) for distance in distances] == found


def test_the_distance_of_samples_is_that_of_what_must_be_moved():
    assert histogram_distance(np.array([0.0, 1.0]), np.array([2.0, 3.0])) == pytest.approx(2)
    # A quarter lies 4 away.
    assert histogram_distance(np.array([0.0]), np.array([0.0, 0.0, 0.0, 4.0])) == pytest.approx(1)
    assert histogram_distance(np.array([3.0, 1.0]), np.array([1.0, 3.0])) == 0
    assert math.isnan(histogram_distance(np.array([]), np.array([1.0])))
