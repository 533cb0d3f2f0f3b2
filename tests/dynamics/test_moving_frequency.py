import numpy as np
import pytest
from scipy.special import softmax

from experiments.recovery_time import step_sizes
from ipsrl.dynamics import finite_groups, flows, moving_frequency

PROBABILITY, GROUP_SIZE, RATE = 0.5, 16, 0.1


@pytest.fixture(scope="module")
def frequencies():
    """phat and pbar `[runs]` of a policy that has stood still for long."""
    random = np.random.default_rng(0)
    average = np.full(200_000, PROBABILITY)
    for _ in range(60):  # 0.9^120: the memory of the start is gone from the variance, too
        frequency = random.binomial(GROUP_SIZE, PROBABILITY, len(average)) / GROUP_SIZE
        average = (1 - RATE) * average + RATE * frequency
    return frequency, average


def test_variance(frequencies):
    variance = moving_frequency.variance(PROBABILITY, GROUP_SIZE, RATE)
    assert np.var(frequencies[1]) == pytest.approx(variance, rel=4 * np.sqrt(2 / len(frequencies[1])))
    assert moving_frequency.effective_group_size(GROUP_SIZE, RATE) == pytest.approx(304.0)
    assert variance == pytest.approx(0.25 / 304)
    assert moving_frequency.effective_group_size(GROUP_SIZE, 1.0) == GROUP_SIZE


@pytest.mark.parametrize("alpha", [1.0, 0.5, 2.0])
def test_distortion(frequencies, alpha):
    """The terms of first order have mean zero: without them 200,000 runs are enough."""
    frequency, average = (values / PROBABILITY - 1 for values in frequencies)
    samples = (1 + frequency) * (1 + average) ** -alpha - 1 - frequency + alpha * average
    error = 4 * samples.std() / np.sqrt(len(samples))
    expected = moving_frequency.distortion(PROBABILITY, GROUP_SIZE, RATE, alpha)
    # What the formula leaves out is smaller by the order of the relative variance of pbar, 1 / 304, times alpha^2.
    assert samples.mean() == pytest.approx(expected, abs=error + 0.02 * abs(expected))
    assert error < 0.1 * abs(expected)
    if alpha == 1.0:
        assert expected == pytest.approx(-0.00296, abs=5e-6)


def test_the_sign_of_the_distortion_of_a_long_memory_turns_at_alpha_3():
    for alpha, sign in ((0.1, -1), (2.9, -1), (3.1, 1), (5.0, 1)):
        assert np.sign(moving_frequency.distortion(PROBABILITY, GROUP_SIZE, 1e-3, alpha)) == sign


def test_without_memory_the_distortion_is_that_of_counts():
    for alpha in (0.5, 2.0):
        counts = finite_groups.distortion(PROBABILITY, finite_groups.count_weights(2000, alpha), alpha)
        assert moving_frequency.distortion(PROBABILITY, 2000, 1.0, alpha) == pytest.approx(counts, rel=5e-3)


def test_lag():
    average, drift = 0.0, 1e-3
    for update in range(1, 400):
        average = (1 - RATE) * average + RATE * drift * update
    assert drift * update - average == pytest.approx(moving_frequency.lag(drift, RATE), rel=1e-9)
    assert moving_frequency.lag(drift, 1.0) == 0.0


@pytest.mark.parametrize("memory_rate", [3.0, 40.0])
def test_rates_with_memory_are_those_of_the_policy_and_its_average_together(memory_rate):
    """dz_i/dt = p_i (r_i m_i^-alpha - sum_k p_k r_k m_k^-alpha), dm/dt = kappa (p - m), linearised at rest."""
    rewards, alpha, step = np.array([3.0, 2.0, 1.0]), 0.7, 1e-6
    rest = flows.stationary_distribution(rewards, alpha)

    def velocity(state):
        probs, pushes = softmax(state[:3]), rewards * state[3:] ** -alpha
        return np.concatenate([probs * (pushes - probs @ pushes), memory_rate * (probs - state[3:])])

    at_rest = np.concatenate([np.log(rest), rest])
    columns = [(velocity(at_rest + e) - velocity(at_rest - e)) / (2 * step) for e in step * np.eye(6)]
    restoring_rates = step_sizes.rates_at_rest(rewards, alpha)
    pairs = [moving_frequency.rates_with_memory(memory_rate, rate) for rate in restoring_rates]
    # The logits may shift together, and the average may leave the simplex: two more directions.
    expected = np.sort_complex(np.concatenate([*pairs, [0.0, -memory_rate]]))
    np.testing.assert_allclose(np.sort_complex(np.linalg.eigvals(np.transpose(columns))), expected, atol=1e-6)
    for pair, rate in zip(pairs, restoring_rates, strict=True):
        assert np.any(pair.imag != 0) == (memory_rate < 4 * rate)
