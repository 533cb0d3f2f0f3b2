import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from experiments.evolution.smoothed_return import smoothed_velocity
from ipsrl.dynamics.softmax import flows

LOGITS, REWARDS = np.array([0.3, -1.0, 2.0]), np.array([1.0, 0.5, 3.0])


# The quadrature's nodes lie further apart, in logits, the larger the noise is.
@pytest.mark.parametrize(("noise", "precision"), [(0.1, 1e-9), (1.0, 1e-9), (3.0, 1e-5)])
def test_two_outcomes_against_an_integral_over_their_log_ratio(noise, precision):
    """d/dz_1 of E[r_1 sigmoid(u)] + ..., u normal around z_1 - z_2 with the standard deviation sqrt(2) noise."""

    def slope(standard):
        right = expit(1.3 + np.sqrt(2) * noise * standard)
        return norm.pdf(standard) * (2.0 - 0.5) * right * (1 - right)

    expected = quad(slope, -12, 12, epsabs=1e-12)[0]
    found = smoothed_velocity(np.array([0.3, -1.0]), np.array([2.0, 0.5]), noise)
    np.testing.assert_allclose(found, [expected, -expected], rtol=precision)


@pytest.mark.parametrize("noise", [0.3, 1.0, 4.0])
def test_it_is_the_gradient_of_the_smoothed_return(noise):
    """Compares with the derivative of a mean over normal noise, each draw with its opposite, so that its mean is 0."""
    half = jax.random.normal(jax.random.key(0), (200_000, 3))
    normal = jnp.concatenate([half, -half])

    def returns(logits):
        return jax.nn.softmax(logits + noise * normal) @ jnp.asarray(REWARDS, jnp.float32)

    expected = jax.grad(lambda logits: returns(logits).mean())(jnp.asarray(LOGITS, jnp.float32))
    np.testing.assert_allclose(smoothed_velocity(LOGITS, REWARDS, noise), expected, atol=4e-3)


def test_without_noise_it_is_that_of_expected_return_up_to_the_square_of_the_noise():
    without = flows.flow_velocity(LOGITS, REWARDS, 0.0)
    np.testing.assert_array_equal(smoothed_velocity(LOGITS, REWARDS, 0.0), without)
    first, second = (np.abs(smoothed_velocity(LOGITS, REWARDS, noise) - without).max() for noise in (0.02, 0.01))
    assert first / second == pytest.approx(4.0, rel=1e-2)


def test_noise_slows_the_breaking_of_a_tie_relative_to_the_margin_over_wrong_outcomes():
    """d ln(z_1 - z_2) / d margin is 1/3 without noise, exactly for a small difference."""

    def relative(noise):
        velocity = smoothed_velocity(np.array([1e-4, -1e-4, -1.0]), np.array([1.0, 1.0, 0.0]), noise)
        return (velocity[0] - velocity[1]) / 2e-4 / (velocity[:2].mean() - velocity[2])

    found = [relative(noise) for noise in (0.0, 0.5, 1.0, 2.0, 4.0)]
    assert found[0] == pytest.approx(1 / 3, rel=1e-6)
    assert found[4] == pytest.approx(0.074, abs=5e-4)
    assert np.all(np.diff(found) < 0)


def test_a_tie_breaks_late_as_without_noise():
    rewards, times = np.array([1.0, 1.0, 0.0]), np.array([1e5, 1e6])
    velocity = functools.partial(smoothed_velocity, rewards=rewards, noise=0.5)
    logits = flows.integrate(velocity, np.log([0.3, 0.2, 0.5]), times)
    assert np.diff(logits[:, 1] - logits[:, 0])[0] / np.log(10) == pytest.approx(-0.5, abs=0.01)
