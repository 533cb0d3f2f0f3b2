import functools

import numpy as np
import pytest
from scipy.special import softmax

from ipsrl.dynamics.softmax import flows


def integrate(probs, rewards, alpha, times):
    velocity = functools.partial(flows.flow_velocity, rewards=np.array(rewards), alpha=alpha)
    return softmax(flows.integrate(velocity, np.log(probs), np.array(times)), axis=-1)


def test_velocities_of_the_paper():
    logits, rewards = np.array([0.3, -1.0, 2.0]), np.array([1.0, 0.5, 0.0])
    probs = softmax(logits)
    expected_return = probs * (rewards - probs @ rewards)
    np.testing.assert_allclose(flows.flow_velocity(logits, rewards, alpha=0.0), expected_return, atol=1e-15)
    scaled = rewards - rewards.sum() * probs
    np.testing.assert_allclose(flows.flow_velocity(logits, rewards, alpha=1.0), scaled, atol=1e-15)


def partial_tie_ratio(times, probs, rewards):
    """Late p_2 / p_1 of the two best outcomes, which tie, beside L worse ones, under expected return.

    c = e^(-z_2) - e^(-z_1) and the sum s of the logits are constant, from which follows, as t -> infinity,

        p_2 / p_1 -> 1 / (c A T^L),   A = c e^s prod_j delta_j,   T = ((L + 1) t / A)^(1 / (L + 1))

    with the gaps delta_j of the worse ones.
    """
    best = rewards == rewards.max()
    second, first = np.sort(probs[best])
    gaps = rewards.max() - rewards[~best]
    separation = 1 / second - 1 / first
    scale = separation * probs.prod() * gaps.prod()
    clock = ((len(gaps) + 1) * times / scale) ** (1 / (len(gaps) + 1))
    return 1 / (separation * scale * clock ** len(gaps))


@pytest.mark.parametrize(
    ("probs", "rewards"),
    [
        ([0.36, 0.34, 0.30], [1.0, 1.0, 0.0]),
        ([0.34, 0.30, 0.36], [2.0, 0.5, 2.0]),
        ([0.36, 0.24, 0.20, 0.20], [1.0, 1.0, 0.5, 0.0]),
        ([0.36, 0.24, 0.15, 0.15, 0.10], [1.0, 1.0, 0.5, 0.0, 0.2]),
    ],
)
def test_a_tie_breaks_by_a_power_of_time(probs, rewards):
    """The power is t^(-1/2) with one worse outcome, and t^(-L / (L + 1)) with L of them."""
    times = np.array([1e7, 1e9])
    distributions = integrate(probs, rewards, 0.0, times)
    tied = np.sort(distributions[:, np.array(rewards) == max(rewards)], axis=1)
    tail = partial_tie_ratio(times, np.array(probs), np.array(rewards))
    np.testing.assert_allclose(tied[:, 0] / tied[:, 1], tail, rtol=3e-3)
    worse = len(probs) - 2
    assert np.log(tail[1] / tail[0]) / np.log(100) == pytest.approx(-worse / (worse + 1), rel=1e-12)


def test_ties_separate_along_an_invariant():
    """e^(-z_i) - e^(-z_j) of two outcomes with equal rewards never changes, nor does the sum of all logits."""
    rewards, start = np.array([1.0, 1.0, 0.5, 0.5]), np.log([0.4, 0.3, 0.2, 0.1])
    velocity = functools.partial(flows.flow_velocity, rewards=rewards, alpha=0.0)
    logits = flows.integrate(velocity, start, np.array([30.0]))[0]
    assert np.abs(logits - start).max() > 0.5
    np.testing.assert_allclose(
        np.exp(-logits[::2]) - np.exp(-logits[1::2]), [1 / 0.4 - 1 / 0.3, 1 / 0.2 - 1 / 0.1], rtol=1e-7
    )
    assert logits.sum() == pytest.approx(start.sum(), abs=1e-9)


@pytest.mark.parametrize(("alpha", "first"), [(0.5, 0.941176), (1.0, 0.8), (2.0, 0.666667), (4.0, 0.585786)])
def test_the_flow_ends_in_proportion_to_a_power_of_the_reward(alpha, first):
    probs = np.array([4.0, 1.0]) ** (1 / alpha)
    probs /= probs.sum()
    assert probs[0] == pytest.approx(first, abs=5e-7)
    np.testing.assert_allclose(integrate([0.5, 0.5], [4.0, 1.0], alpha, [200.0])[0], probs, atol=1e-8)
    rest = flows.flow_velocity(np.log(probs), np.array([4.0, 1.0]), alpha)
    np.testing.assert_allclose(rest, 0.0, atol=1e-13)


@pytest.mark.parametrize(("start", "gap"), [(0.1, 1.0), (-2.0, 0.5), (1.0, -3.0), (0.7, 0.0)])
def test_two_outcomes_follow_the_exact_solution(start, gap):
    """u = ln(p_1 / p_2) moves with du/dt = gap / (1 + cosh u) under expected return."""
    times = np.array([0.0, 0.5, 10.0, 1e3])
    distributions = integrate(softmax([start, 0.0]), [1.0 + gap, 1.0], 0.0, times)
    ratio = np.log(distributions[:, 0] / distributions[:, 1])
    np.testing.assert_allclose(ratio + np.sinh(ratio), start + np.sinh(start) + gap * times, rtol=1e-7, atol=1e-8)
