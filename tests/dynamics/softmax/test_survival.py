import itertools
import math

import numpy as np
import pytest

from ipsrl.dynamics.softmax import survival
from ipsrl.dynamics.softmax.finite_groups import count_weights, mean_field

RULES = ["no baseline", "group mean", "group mean and std"]
FIVE = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
TWO = np.array([4.0, 1.0])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("floor", [0.0, 0.2, 0.4])
def test_critical_alpha_is_where_the_push_on_a_rare_outcome_turns(rule, floor):
    rewards, rare = np.array([2.0, 1.0]), np.array([1 - 1e-9, 1e-9])
    for group_size, factor in itertools.product((3, 6, 32), (0.999, 1.001)):
        weights = count_weights(group_size, factor * survival.critical_alpha(2.0, group_size, rule, floor), floor)
        assert np.sign(mean_field(rare, rewards, weights, rule)[1]) == np.sign(factor - 1)
        assert survival.survives(rewards, weights, rule).tolist() == [True, factor > 1]


def test_the_floor_caps_what_a_large_group_can_do():
    assert survival.critical_alpha(4.0, 16, "no baseline", floor=0.2) == pytest.approx(math.log(4) / math.log(5))
    for group_size in (4, 16, 64):
        weights = count_weights(group_size, floor=0.3)  # 1 / 0.3 < 4
        for rule in RULES:
            assert survival.critical_alpha(4.0, group_size, rule, floor=0.3) > 1
            assert survival.survives(TWO, weights, rule).tolist() == [True, False]
            assert survival.stationary_distribution(TWO, weights, rule).tolist() == [1.0, 0.0]
    for rule in RULES:
        assert survival.smallest_group(4.0, rule, floor=0.3) == math.inf
        assert survival.smallest_group(4.0, rule, floor=0.25) == math.inf  # exactly at the border


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("floor", [0.0, 0.03, 0.12])
def test_smallest_group_is_the_first_whose_critical_alpha_is_below(rule, floor):
    for reward_ratio, alpha in itertools.product((1.0, 1.3, 2.0, 4.0), (0.51, 1.0, 3.0)):
        size = survival.smallest_group(reward_ratio, rule, alpha, floor)
        critical = [survival.critical_alpha(reward_ratio, G, rule, floor) for G in range(2, 200)]
        saved = [G for G, critical_alpha in zip(range(2, 200), critical, strict=True) if critical_alpha < alpha]
        assert size == (saved[0] if saved else math.inf)


def test_the_smallest_group_of_a_small_alpha_is_very_large():
    for rule, more in zip(RULES, (0, 1, 1), strict=True):
        assert survival.smallest_group(4.0, rule, alpha=0.05) == pytest.approx(4.0**20 + more + 1, rel=3e-12)
        for alpha in (0.001, 1e-320):
            assert survival.smallest_group(4.0, rule, alpha) == math.inf
        assert survival.smallest_group(4.0, rule, math.log(4) / math.log(1.7976931348e308)) > 1e300


@pytest.mark.parametrize("rule", RULES)
def test_the_stationary_distribution_is_a_rest_point_with_no_push_on_the_extinct(rule):
    rewards = TWO if rule == "group mean and std" else FIVE
    for weights in (count_weights(7), count_weights(6, 2.0, 0.3), np.array([3.0, 3.0, 2.5, 0.5, 0.5])):
        probs = survival.stationary_distribution(rewards, weights, rule)
        assert probs.sum() == pytest.approx(1.0, abs=1e-14)
        np.testing.assert_allclose(mean_field(probs, rewards, weights, rule), 0.0, atol=1e-13)
        alive = survival.survives(rewards, weights, rule)
        np.testing.assert_array_equal(alive, probs > 0)
        for outcome in np.flatnonzero(~alive):
            seed = np.where(np.arange(len(probs)) == outcome, 1e-7, probs * (1 - 1e-7))
            assert mean_field(seed, rewards, weights, rule)[outcome] < 0


def test_distributions_where_rounding_hides_that_the_weight_falls():
    """A floor makes all counts up to 38 of 64 weigh the same, so that w_G does not seem to fall below p = 0.2."""
    rewards, weights = np.array([5.0, 1.0, 1.0]), count_weights(64, alpha=10.0, floor=0.6)
    probs = survival.stationary_distribution(rewards, weights, "no baseline")
    assert probs[1] == pytest.approx(probs[2], rel=1e-12)
    np.testing.assert_allclose(mean_field(probs, rewards, weights, "no baseline") / weights[0], 0.0, atol=1e-12)
    # 1 / floor = 3, exactly at the border.
    probs = survival.stationary_distribution(np.array([1.0, 1.0, 3.0]), count_weights(64, floor=1 / 3), "no baseline")
    assert probs.tolist() == [0.0, 0.0, 1.0]
    assert survival.stationary_distribution(np.array([2.0]), weights, "no baseline").tolist() == [1.0]


def test_standardised_groups_rest_elsewhere():
    """Survival is that of the group mean, the distribution at rest is not: it only knows which reward is larger."""
    assert survival.stationary_distribution(TWO, count_weights(5), "group mean and std").tolist() == [1.0, 0.0]
    probs = survival.stationary_distribution(TWO, count_weights(6), "group mean and std")
    # With G = 6 the only groups that push up the minority have one of it; sqrt(n (6 - n)) is the length of a push.
    odds = probs[1] / probs[0]
    pushes = [math.comb(6, n) * odds**n * math.sqrt(n * (6 - n)) * (1 if n == 1 else -1) for n in range(1, 6)]
    assert sum(pushes) == pytest.approx(0.0, abs=1e-10)
    even = survival.stationary_distribution(np.array([2.0, 2.0]), count_weights(6), "group mean and std")
    np.testing.assert_allclose(even, 0.5, atol=1e-9)
    swapped = survival.stationary_distribution(TWO[::-1], count_weights(6), "group mean and std")
    np.testing.assert_allclose(swapped, probs[::-1], rtol=1e-12)


def test_a_tie_survives():
    tied = np.array([2.0, 2.0, 2.0, 1.0])
    probs = survival.stationary_distribution(tied, count_weights(8, 0.3), "no baseline")
    np.testing.assert_allclose(probs[:3], probs[0], rtol=1e-12)
    assert survival.critical_alpha(1.0, 3, "group mean") == 0.0
    assert (
        survival.critical_alpha(1.0, 2, "group mean") == math.inf
    )  # balanced groups are silent, others are of one kind


@pytest.mark.parametrize("rule", RULES)
def test_the_weaker_outcome_rests_above_the_critical_alpha(rule):
    rests = [survival.weaker_at_rest((4.0, 1.0), 8, rule, alpha) for alpha in (0.0, 0.6, 0.8, 1.2)]
    assert rests[:2] == [0.0, 0.0]
    for alpha, rest in zip((0.8, 1.2), rests[2:], strict=True):
        probs = np.array([1 - rest, rest])
        assert 0 < rest < 0.5
        np.testing.assert_allclose(mean_field(probs, TWO, count_weights(8, alpha), rule), 0, atol=1e-9)
    # In groups of 2 a group mean leaves nothing to choose from.
    assert (survival.weaker_at_rest((4.0, 1.0), 2, rule, 5.0) > 0) == (rule == "no baseline")
    assert survival.weaker_at_rest((4.0, 1.0), 8, rule, 2.0, floor=0.5) == 0.0
