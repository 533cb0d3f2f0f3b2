import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives.penalties import (
    AdaptiveDivergenceCost,
    AdaptiveKullbackLeibler,
    KullbackLeibler,
    token_divergence,
)
from ipsrl.structures import Sizes
from tests.objectives.groups import assert_close, by_log_probs, rollouts_of

DIFFERENCE = np.array([0.5, -0.5, -2.0, 0.0])


@pytest.mark.parametrize(
    ("estimator", "values", "gradient"),
    [
        ("k1", DIFFERENCE, [1.0] * 4),
        ("k2", [0.125, 0.125, 2.0, 0.0], DIFFERENCE),
        ("k3", [0.106531, 0.148721, 4.389056, 0.0], [0.393469, -0.648721, -6.389056, 0.0]),
        ("corrected_k3", [0.106531, 0.148721, 4.389056, 0.0], DIFFERENCE),
    ],
)
@pytest.mark.parametrize("behind", [0.0, 0.7])
def test_estimators_of_the_divergence(estimator, values, gradient, behind):
    """Off-policy, with an importance ratio of exp(behind), the corrected one alone is multiplied by it."""
    log_probs = jnp.asarray(DIFFERENCE - 1.0, jnp.float32)[None, None]
    reference = np.full((1, 1, 4), -1.0, np.float32)
    rollouts = rollouts_of(log_probs - behind, reference_log_probs=reference)
    cost, slope, _ = by_log_probs(KullbackLeibler(1.0, estimator), log_probs, rollouts)
    ratio = np.exp(behind) if estimator == "corrected_k3" else 1.0
    assert_close(cost[0, 0], ratio * np.array(values))
    assert_close(slope[0, 0], ratio * np.array(gradient))


@pytest.mark.parametrize("distance", [-19.0, -21.0, -40.0])
@pytest.mark.parametrize("behind", [0.0, 0.5, -3.0, 25.0, -25.0])
def test_a_policy_far_below_its_reference_is_never_pushed_further_away(distance, behind):
    """The corrected estimator's gradient is rho d, until the ratio's own clamp takes it."""
    log_probs = jnp.full((1, 1, 1), distance - 1.0)
    rollouts = rollouts_of(log_probs - behind, reference_log_probs=np.full((1, 1, 1), -1.0, np.float32))

    def slope(estimator):
        return by_log_probs(KullbackLeibler(1.0, estimator), log_probs, rollouts)[1]

    assert (slope("k3") <= 0).all()
    np.testing.assert_allclose(slope("k2"), distance)
    corrected = np.exp(behind) * distance if abs(behind) < 20 else 0.0
    np.testing.assert_allclose(slope("corrected_k3"), corrected, rtol=1e-5)


def test_k3_where_the_clamp_begins():
    """exp(19) - 20 with slope 1 - exp(19); beyond 20, the value there."""
    rollouts = rollouts_of(np.zeros((1, 1, 4)), reference_log_probs=np.zeros((1, 1, 4), np.float32))
    log_probs = jnp.array([[[-19.0, -21.0, 19.0, 21.0]]])
    values = token_divergence(log_probs, rollouts, "k3")
    np.testing.assert_allclose(values[0, 0], [np.exp(19) - 20, np.exp(20) - 21, 18, 19], rtol=1e-6)
    slope = jax.grad(lambda x: token_divergence(x, rollouts, "k3").sum())(log_probs)
    np.testing.assert_allclose(slope[0, 0], [1 - np.exp(19), 0, 1 - np.exp(-19), 0], rtol=1e-6)


ANSWERS = rollouts_of(
    [[[-0.5, -1.2, -0.7], [-1.0, np.nan, np.nan]]],
    mask=[[[True, True, True], [True, False, False]]],
    reference_log_probs=np.array([[[-1.0, -1.0, -1.0], [-1.5, np.nan, np.nan]]], np.float32),
    rewards=np.array([[1.0, 0.0]]),
)


@pytest.mark.parametrize(("target", "factor"), [(0.5, 1.01), (0.1, 1.02), (6.0, 0.98), (0.55, 1.0)])
def test_the_coefficient_follows_its_target(target, factor):
    """The two answers are 0.6 and 0.5 nats from the reference: 0.55 on average."""
    expected = np.array([0.2, 0.2 * factor, 0.2 * factor**2])
    penalty, cost = AdaptiveKullbackLeibler(0.2, "k2", target), AdaptiveDivergenceCost(0.2, "k1", target)
    in_loss, in_reward = penalty.init(Sizes(1)), cost.init(Sizes(1))
    for coefficient in expected:
        coefficients, in_loss = penalty.update_state(ANSWERS, jnp.zeros((1, 2, 3)), in_loss)
        np.testing.assert_allclose(coefficients, [[[coefficient]]], rtol=1e-6)
        shaped, in_reward = cost.update_state(ANSWERS.rewards, ANSWERS, in_reward)
        assert_close(shaped, [[1 - coefficient * 0.6, -coefficient * 0.5]])
