import math

import numpy as np
import pytest
from scipy.special import softmax

from experiments.recovery_time import recovery_times
from ipsrl.dynamics.softmax import flows
from ipsrl.dynamics.softmax.finite_groups import count_weights, mean_field

RULES = ["no baseline", "group mean", "group mean and std"]


@pytest.mark.parametrize(
    ("start", "finite", "hyperbolic", "ideal"),
    [(1e-2, 5.4, 4.2, 1.54), (1e-4, 420, 417, 3.87), (1e-6, 41673, 41667, 6.18), (1e-8, 4.17e6, 4.17e6, 8.48)],
)
def test_recovery_times(start, finite, hyperbolic, ideal):
    """Times to half the target probability, 0.2, with G = 16."""
    rewards, weights = (4.0, 1.0), count_weights(16)
    assert recovery_times.recovery_time(start, 0.1, rewards, weights) == pytest.approx(finite, rel=8e-3)
    assert recovery_times.recovery_coefficient(rewards, weights) == 24.0
    assert 1 / (24.0 * start) == pytest.approx(hyperbolic, rel=8e-3)
    assert recovery_times.ideal_recovery_time(start, 0.1, rewards) == pytest.approx(ideal, abs=5e-3)


@pytest.mark.parametrize("rule", RULES)
def test_recovery_time_is_that_of_the_mean_field(rule):
    rewards, weights = (4.0, 1.0), count_weights(8, alpha=1.2, floor=0.15)
    elapsed = recovery_times.recovery_time(0.01, 0.08, rewards, weights, rule)

    def velocity(logits):
        return mean_field(softmax(logits), np.array(rewards), weights, rule)

    arrived = flows.integrate(velocity, np.log([0.99, 0.01]), np.array([elapsed]))[0]
    assert softmax(arrived)[1] == pytest.approx(0.08, rel=1e-7)


@pytest.mark.parametrize("rule", RULES)
def test_recovery_is_hyperbolic_at_first(rule):
    """dp_2/dt = c p_2^2, so that the time from p_2 to 2 p_2 is 1 / (2 c p_2)."""
    rewards, weights = (3.0, 1.0), np.array([7.0, 4.0, 2.5, 1.5, 1.0])
    coefficient = recovery_times.recovery_coefficient(rewards, weights, rule)
    for start, tolerance in ((1e-4, 1e-2), (1e-6, 1e-4)):
        doubling = recovery_times.recovery_time(start, 2 * start, rewards, weights, rule)
        assert doubling * 2 * coefficient * start == pytest.approx(1.0, rel=tolerance)


def test_recovery_coefficient_of_the_lost():
    weights = count_weights(5)
    assert recovery_times.recovery_coefficient((4.0, 1.0), weights, "no baseline") == 2.0
    assert recovery_times.recovery_coefficient((4.0, 1.0), weights, "group mean") == pytest.approx(0.0, abs=1e-14)
    assert recovery_times.recovery_coefficient((4.0, 1.0), weights, "group mean and std") == 0.0
    assert recovery_times.recovery_coefficient((6.0, 1.0), weights, "group mean and std") == -4.0


def test_ideal_recovery_time():
    """alpha = 1 by partial fractions: dp/dt = 2 R p (1 - p) (q - p), with R = r_1 + r_2 and q = r_2 / R."""
    total, target = 5.0, 0.2

    def primitive(p):
        return np.log(p) / target + np.log1p(-p) / (1 - target) - np.log(target - p) / (target * (1 - target))

    expected = (primitive(0.15) - primitive(1e-5)) / (2 * total)
    assert recovery_times.ideal_recovery_time(1e-5, 0.15, (4.0, 1.0)) == pytest.approx(expected, rel=1e-9)
    # Ten times rarer: longer by a power of 10 for alpha = 1/2, by nothing much for alpha = 2.
    times = {a: [recovery_times.ideal_recovery_time(p, 0.05, (4.0, 1.0), a) for p in (1e-9, 1e-10)] for a in (0.5, 2.0)}
    assert times[0.5][1] / times[0.5][0] == pytest.approx(math.sqrt(10), rel=1e-3)
    assert times[2.0][1] - times[2.0][0] == pytest.approx(0.0, abs=1e-8)
    # Expected return moves u = ln(p_1 / p_2) so that u + sinh u changes by the reward gap, here -1, times the time.
    start, end = math.log(4), -math.log(9)
    time = start + math.sinh(start) - end - math.sinh(end)
    assert recovery_times.ideal_recovery_time(0.2, 0.9, (1.0, 2.0), alpha=0.0) == pytest.approx(time)


@pytest.mark.parametrize(
    ("message", "end", "weights", "rule"),
    [
        ("does not recover to 0", 0.3, count_weights(16), "no baseline"),
        ("does not recover", 1e-3, count_weights(5), "group mean and std"),
        ("must not be negative and must not rise", 1e-3, count_weights(8) - 2, "no baseline"),
        ("must rise from start", 1e-7, count_weights(8), "no baseline"),
    ],
)
def test_bad_input_is_refused(message, end, weights, rule):
    with pytest.raises(ValueError, match=message):
        recovery_times.recovery_time(1e-6, end, (4.0, 1.0), weights, rule)
