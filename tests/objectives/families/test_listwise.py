import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.structures import Sizes
from tests.objectives.groups import assert_close, rollouts_of, scores_of

MASK = np.array([[[True, True], [True, False], [True, True]]])
LOG_PROBS = np.array([[[-1.0, -2.0], [-0.5, 0.0], [-3.0, -0.4]]])
REWARDS = np.array([[1.0, 0.0, 1.0]])


def softmax(values):
    return np.exp(values) / np.exp(values).sum()


def loss_of(text, behaviour, **changed):
    rollouts = rollouts_of(behaviour, MASK, rewards=REWARDS)
    objective = make(text)
    weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(1)))
    weights = dataclasses.replace(weights, **changed)
    output = objective.loss(scores_of(jnp.float32(LOG_PROBS)), rollouts, weights)
    return output.loss_sum / output.count


def test_squared_differences_of_mean_likelihoods_and_rewards():
    """DMPO off-policy, of answers of unequal lengths: without advantages, its loss is the penalty."""
    found = loss_of("dmpo(coefficient=0.7, temperature=0.5)", LOG_PROBS - 1, advantages=jnp.zeros(MASK.shape))
    means, wanted = np.array([-1.5, -0.5, -1.7]), softmax(REWARDS[0] / 0.5)
    assert_close(found, 0.7 * ((softmax(means) - wanted) ** 2).sum())


@pytest.mark.parametrize("divergence", ["forward_kl", "reverse_kl"])
def test_a_divergence_from_the_tilted_policy_that_sampled(divergence):
    behaviour = LOG_PROBS - np.array([[[0.3, 0.1], [0.2, 0.0], [-0.5, 0.4]]])
    advantages = (REWARDS[0] - 2 / 3) / np.std(REWARDS)
    wanted = softmax(np.where(MASK, behaviour, 0.0).sum(axis=-1)[0] + advantages / 0.5)
    found = softmax(np.where(MASK, LOG_PROBS, 0.0).sum(axis=-1)[0])
    one, other = (wanted, found) if divergence == "forward_kl" else (found, wanted)
    assert_close(
        loss_of(f"lpo(temperature=0.5, divergence={divergence})", behaviour), (one * np.log(one / other)).sum()
    )


def gradient_of(text, behaviour, rewards):
    """The gradient of the mean loss by log pi, compiled, for a group with these rewards and `LOG_PROBS`."""
    objective = make(text)

    @jax.jit
    def gradient(rewards, log_probs):
        def loss(log_probs):
            return objective(scores_of(log_probs), rollouts_of(behaviour, MASK, rewards=rewards)).loss_sum

        return jax.grad(loss)(log_probs)

    return np.asarray(gradient(jnp.float32(rewards), jnp.float32(LOG_PROBS)))


def test_rewards_of_any_size_have_a_softmax():
    """A compiled program rounds r / temperature in two ways where it needs it twice."""
    large, none = (gradient_of("dmpo", LOG_PROBS, [[reward] * 3]) for reward in (3e9, 0.0))
    assert np.abs(none).max() > 0.05
    assert_close(large, none)


@pytest.mark.parametrize("text", ["dmpo", "lpo(standardise=False)"])
def test_large_rewards_that_differ_by_rounding_are_wanted_equally(text):
    """3e9 and its neighbour in float32, 256 above, of answers of unequal lengths: a mean over tokens rounds, too."""
    neighbour = np.nextafter(np.float32(3e9), np.float32(4e9))
    found, exact = (gradient_of(text, LOG_PROBS, [[3e9, one, 0.0]]) for one in (neighbour, 3e9))
    assert np.abs(exact).max() > 0.05
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())
