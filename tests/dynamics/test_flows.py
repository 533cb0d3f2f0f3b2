import functools

import numpy as np
import pytest
from scipy.special import entr, softmax

from ipsrl.dynamics import flows


def integrate(law, rewards, alpha, times):
    velocity = functools.partial(flows.flow_velocity, rewards=np.array(rewards), alpha=alpha)
    return softmax(flows.integrate(velocity, np.log(law), np.array(times)), axis=-1)


def test_velocities_of_the_paper():
    logits, rewards = np.array([0.3, -1.0, 2.0]), np.array([1.0, 0.5, 0.0])
    law = softmax(logits)
    expected_return = law * (rewards - law @ rewards)
    np.testing.assert_allclose(flows.flow_velocity(logits, rewards, alpha=0.0), expected_return, atol=1e-15)
    scaled = rewards - rewards.sum() * law
    np.testing.assert_allclose(flows.flow_velocity(logits, rewards, alpha=1.0), scaled, atol=1e-15)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
def test_velocity_is_the_gradient_of_its_potential(alpha):
    logits, rewards, step = np.array([0.3, -1.0, 0.7]), np.array([1.0, 0.5, 2.0]), 1e-5

    def potential(z):
        law = softmax(z)
        return rewards @ np.log(law) if alpha == 1 else rewards @ law ** (1 - alpha) / (1 - alpha)

    gradient = [(potential(logits + e) - potential(logits - e)) / (2 * step) for e in step * np.eye(3)]
    np.testing.assert_allclose(flows.flow_velocity(logits, rewards, alpha), gradient, rtol=1e-8)


@pytest.mark.parametrize(
    ("worst_reward", "ratios"),
    [
        (0.0, [0.90258, 0.61594, 0.15930, 0.017623]),
        (0.5, [0.91992, 0.67969, 0.21192, 0.024870]),
        (0.9, [0.93889, 0.79851, 0.36966, 0.054882]),
    ],
)
def test_expected_return_separates_a_tie_slowly(worst_reward, ratios):
    # The ratios are from a fixed-step Runge-Kutta integration in ln(1 + t).
    laws = integrate([0.36, 0.34, 0.30], [1.0, 1.0, worst_reward], 0.0, [1e1, 1e3, 1e5, 1e7])
    np.testing.assert_allclose(laws[:, 1] / laws[:, 0], ratios, rtol=3e-5)


def test_an_exact_tie_does_not_move():
    laws = integrate([0.35, 0.35, 0.30], [1.0, 1.0, 0.0], 0.0, [1e5])
    assert laws[0, 1] / laws[0, 0] == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("alpha", "first"), [(0.5, 0.941176), (1.0, 0.8), (2.0, 0.666667), (4.0, 0.585786)])
def test_the_flow_ends_at_the_stationary_law(alpha, first):
    law = flows.stationary_law(np.array([4.0, 1.0]), alpha)
    assert law[0] == pytest.approx(first, abs=5e-7)
    np.testing.assert_allclose(integrate([0.5, 0.5], [4.0, 1.0], alpha, [200.0])[0], law, atol=1e-8)
    rest = flows.flow_velocity(np.log(law), np.array([4.0, 1.0]), alpha)
    np.testing.assert_allclose(rest, 0.0, atol=1e-13)


def test_entropy_of_stationary_laws():
    rewards = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    entropies = [entr(flows.stationary_law(rewards, a)).sum() / np.log(5) for a in (0.5, 1, 2, 4)]
    np.testing.assert_allclose(entropies, [0.794, 0.926, 0.978, 0.994], atol=5e-4)
    assert flows.stationary_law(np.array([2.0, 1.0, 0.0]), 1e-4).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(("start", "gap"), [(0.1, 1.0), (-2.0, 0.5), (1.0, -3.0), (0.7, 0.0)])
def test_two_outcome_solution_solves_the_flow(start, gap):
    times = np.array([0.0, 0.5, 10.0, 1e3])
    exact = flows.two_outcome_log_ratio(times, start, gap)
    assert exact[0] == pytest.approx(start, abs=1e-12)
    law = softmax([start, 0.0])
    laws = integrate(law, [1.0 + gap, 1.0], 0.0, times)
    np.testing.assert_allclose(exact, np.log(laws[:, 0] / laws[:, 1]), rtol=1e-7, atol=1e-8)


def test_two_outcome_collapse_time():
    end = np.log(99)  # p_1 = 0.99
    assert flows.two_outcome_time(0.1, end, 1.0) == pytest.approx(53.89, abs=5e-3)
    assert flows.two_outcome_time(0.1, end, 0.5) == pytest.approx(2 * 53.89, abs=1e-2)
    assert float(flows.two_outcome_log_ratio(flows.two_outcome_time(0.1, end, 2.0), 0.1, 2.0)) == pytest.approx(end)
    late = flows.two_outcome_log_ratio(1e8, 0.1, 2.0)
    assert np.exp(-late) * 2 * 2.0 * 1e8 == pytest.approx(1.0, abs=1e-6)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="alpha"):
        flows.flow_velocity(np.zeros(2), np.ones(2), -1.0)
    with pytest.raises(ValueError, match="must both be"):
        flows.flow_velocity(np.zeros(2), np.ones(3), 1.0)
    with pytest.raises(ValueError, match="positive alpha"):
        flows.stationary_law(np.ones(2), 0.0)
    with pytest.raises(ValueError, match="negative"):
        flows.stationary_law(np.array([1.0, -1.0]), 1.0)
    with pytest.raises(ValueError, match="increasing"):
        flows.integrate(lambda z: z, np.zeros(2), np.array([1.0, 1.0]))
    with pytest.raises(ValueError, match="never moves"):
        flows.two_outcome_time(0.0, 1.0, -1.0)
