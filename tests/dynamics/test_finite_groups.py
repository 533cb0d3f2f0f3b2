import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq

from ipsrl.dynamics import finite_groups

LAW, REWARDS = np.array([0.5, 0.3, 0.2]), np.array([4.0, 1.0, 2.0])


def enumerated_update(rule, law, rewards, group_size, alpha, floor):
    """The mean of a rule over all groups, sample by sample."""
    mean = np.zeros(len(law))
    for group in itertools.product(range(len(law)), repeat=group_size):
        share = np.bincount(group, minlength=len(law)) / group_size
        scaled = np.array([r * max(f, floor) ** -alpha if f > 0 else 0.0 for r, f in zip(rewards, share, strict=True)])
        mu = share @ scaled
        sampled = scaled[list(group)]
        update = share * (scaled - mu)
        if rule == "none":
            update = share * scaled - law * mu
        elif rule == "mean_and_std":
            update = np.zeros(len(law)) if np.ptp(sampled) < 1e-9 else update / sampled.std()
        mean += math.prod(law[list(group)]) * update
    return mean


@pytest.mark.parametrize(("alpha", "floor"), [(1.0, 0.0), (0.5, 0.0), (2.0, 0.3), (0.0, 0.0)])
@pytest.mark.parametrize("group_size", [2, 5])
def test_mean_fields_are_means_over_all_groups(alpha, floor, group_size):
    arguments = (group_size, alpha, floor)
    exact = finite_groups.mean_field_no_baseline(LAW, REWARDS, *arguments)
    np.testing.assert_allclose(exact, enumerated_update("none", LAW, REWARDS, *arguments), atol=1e-12)
    exact = finite_groups.mean_field_group_mean(LAW, REWARDS, *arguments)
    np.testing.assert_allclose(exact, enumerated_update("mean", LAW, REWARDS, *arguments), atol=1e-12)
    law, rewards = np.array([0.7, 0.3]), np.array([4.0, 1.0])
    exact = finite_groups.mean_field_group_mean_and_std(law, rewards, *arguments)
    np.testing.assert_allclose(exact, enumerated_update("mean_and_std", law, rewards, *arguments), atol=1e-12)


def test_expected_weight_without_floor():
    probability = np.array([1e-6, 0.1, 0.5, 0.99, 1.0])
    for group_size in (1, 4, 16):
        weight = finite_groups.expected_weight(probability, group_size, floor=1 / group_size)
        np.testing.assert_allclose(weight, (1 - (1 - probability) ** group_size) / probability, rtol=1e-9)
    assert finite_groups.expected_weight(0.0, 16) == 16.0
    assert finite_groups.expected_weight(0.0, 16, floor=0.2) == 5.0
    assert finite_groups.expected_weight(1.0, 16, alpha=3.0) == 1.0


def test_the_group_mean_costs_one_sample():
    # True for alpha = 1 and a floor that cannot act.
    costs = finite_groups.mean_field_group_mean(LAW, REWARDS, 8)
    np.testing.assert_allclose(costs, finite_groups.mean_field_no_baseline(LAW, REWARDS, 7), atol=1e-14)


def stationary_minority(mean_field, group_size, floor=1e-3):
    """p_2 at which the mean field for the rewards (4, 1) rests; 0 where the minority dies out."""

    def push(p):
        return mean_field(np.array([1 - p, p]), np.array([4.0, 1.0]), group_size, floor=floor)[1] / p

    return brentq(push, 1e-6, 0.5, xtol=1e-12) if push(1e-6) > 0 else 0.0


@pytest.mark.parametrize(
    ("group_size", "no_baseline", "group_mean"),
    [
        (4, 0, 0),
        (5, 0.0735, 0),
        (6, 0.1149, 0.0735),
        (8, 0.1570, 0.1404),
        (16, 0.1950, 0.1936),
        (64, 0.2000, 0.2000),
    ],
)
def test_stationary_minority_of_finite_groups(group_size, no_baseline, group_mean):
    found = stationary_minority(finite_groups.mean_field_no_baseline, group_size)
    assert found == pytest.approx(no_baseline, abs=5e-5)
    found = stationary_minority(finite_groups.mean_field_group_mean, group_size)
    assert found == pytest.approx(group_mean, abs=5e-5)


def test_a_high_floor_loses_the_minority_at_every_group_size():
    for group_size in (4, 16, 64):
        assert stationary_minority(finite_groups.mean_field_no_baseline, group_size, floor=0.3) == 0.0


def test_standardised_groups_lose_the_minority_when_the_group_is_small():
    # Survival needs G > 1 + r_1 / r_2 = 5.
    assert stationary_minority(finite_groups.mean_field_group_mean_and_std, 5) == 0.0
    assert stationary_minority(finite_groups.mean_field_group_mean_and_std, 6) > 0.0


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="at least 2"):
        finite_groups.mean_field_group_mean(LAW, REWARDS, 1)
    with pytest.raises(ValueError, match="exactly 2"):
        finite_groups.mean_field_group_mean_and_std(LAW, REWARDS, 4)
    with pytest.raises(ValueError, match="sum to 1"):
        finite_groups.mean_field_no_baseline(LAW * 2, REWARDS, 4)
    with pytest.raises(ValueError, match="must both be"):
        finite_groups.mean_field_no_baseline(LAW, REWARDS[:2], 4)
    with pytest.raises(ValueError, match="no weight"):
        finite_groups.count_weight(np.array([0, 1]), 4)
    with pytest.raises(ValueError, match="negative"):
        finite_groups.expected_weight(0.5, 4, floor=-0.1)
