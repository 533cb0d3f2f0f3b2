import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.objectives.catalog.token_probability import LowProbabilityRegulariser
from ipsrl.structures import PolicyScores, Sizes
from tests.objectives.groups import assert_close, random_rollouts, rollouts_of


def test_lopti_takes_the_unlikely_tokens_first_and_then_the_others():
    rollouts, _ = random_rollouts(7, prompts=4)
    objective = make("ar_lopti(kl=0.01)")
    assert objective.num_steps == 2
    weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(4)))
    steps = objective.weights_of_steps(weights, rollouts)
    unlikely = np.exp(rollouts.behaviour_log_probs) < 0.5
    assert (steps[0].advantages == jnp.where(unlikely, weights.advantages, 0.0)).all()
    assert (steps[1].advantages == jnp.where(unlikely, 0.0, weights.advantages)).all()
    assert all(step.advantages.any() for step in steps)
    assert steps[0].coefficients == steps[1].coefficients == weights.coefficients
    # A probability of exactly the threshold is not below it.
    at_threshold = rollouts_of(np.log([[[0.25, 0.5]]]))
    assert (make("ar_lopti").first(at_threshold) == jnp.array([[[True, False]]])).all()
    assert make("ar_lopti(lopti=False)").num_steps == 1


DISTRIBUTION = np.array([0.6, 0.3, 0.08, 0.02])


def lp_rollouts(tokens, advantage_rewards, probs=DISTRIBUTION, mask=None):
    """One token for each answer, all from the same distribution."""
    tokens = np.array(tokens)[None, :, None]
    log_distribution = np.log(probs)
    return dataclasses.replace(
        rollouts_of(log_distribution[tokens], mask, rewards=np.array([advantage_rewards], np.float32)),
        tokens=jnp.array(tokens),
        top_tokens=jnp.broadcast_to(jnp.arange(len(probs)), (*tokens.shape, len(probs))),
        top_log_probs=jnp.broadcast_to(jnp.array(log_distribution, jnp.float32), (*tokens.shape, len(probs))),
    )


def coefficients(objective, rollouts):
    weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(rollouts.rewards.shape[0])))
    return np.array(weights.coefficients[0][..., 0])


def test_lp_reg_protects_unlikely_punished_tokens_that_are_no_noise():
    """Probabilities .6 .3 .08 .02 .6: their median is 0.3, so that those of .08 and .02 lie below it."""
    rollouts = lp_rollouts([0, 1, 2, 3, 0], [1.0, 0, 0, 0, 1])
    protected = coefficients(make("lp_reg(coefficient=2.0, rho=0.5)"), rollouts)
    assert protected.tolist() == [[0, 0, 2, 2, 0]]
    # 0.05 * 0.6 = 0.03 makes noise of the last token; so does a fixed threshold of 0.05.
    for text in ("lp_reg(rho=0.5, kappa=0.05)", "lp_reg(rho=0.5, kappa=0.05, threshold=fixed)"):
        assert coefficients(make(text), rollouts).tolist() == [[0, 0, 1, 0, 0]]
    # min-p scales with the likeliest token: 0.15 * 0.6 = 0.09 is above 0.08, a fixed 0.07 is not.
    assert coefficients(make("lp_reg(rho=0.5, kappa=0.15)"), rollouts).tolist() == [[0] * 5]
    assert coefficients(make("lp_reg(rho=0.5, kappa=0.07, threshold=fixed)"), rollouts).tolist() == [[0, 0, 1, 0, 0]]
    # A token that is not among the likeliest counts as noise.
    assert coefficients(make("lp_reg(rho=0.5, likeliest=3)"), rollouts).tolist() == [[0, 0, 1, 0, 0]]
    # Rewarded, they need no protection; neither do those of a group without a signal.
    assert coefficients(make("lp_reg(rho=0.5)"), lp_rollouts([0, 1, 2, 3, 0], [0.0, 0, 1, 1, 0])).tolist() == [[0] * 5]
    assert coefficients(make("lp_reg(rho=0.9)"), lp_rollouts([0, 1, 2, 3, 0], [1.0] * 5)).tolist() == [[0] * 5]
    # Nor does one whose reward is the mean but for rounding: of 1.1, 1.3 and 1.5 only that of 1.1 is punished.
    at_mean = lp_rollouts([2, 2, 0], [1.1, 1.3, 1.5], probs=np.array([0.6, 0.3, 0.1]))
    assert coefficients(make("lp_reg(rho=0.9)"), at_mean).tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("kappa", [0.02, 0.05, 0.2])
def test_the_cost_of_lp_reg_is_the_divergence_from_its_proxy(kappa):
    """KL(proxy || policy) has the gradient policy - proxy by the logits, which is 0 without noise and on-policy."""
    rollouts = lp_rollouts([2], [1.0])
    proxy = np.where(kappa * 0.6 < DISTRIBUTION, DISTRIBUTION, 0.0)
    proxy = proxy / proxy.sum()
    part = LowProbabilityRegulariser(kappa=kappa)
    policy = np.array([0.5, 0.2, 0.2, 0.1])

    def cost(logits):
        log_distribution = jax.nn.log_softmax(logits)
        scores = PolicyScores(
            log_distribution[rollouts.tokens], jnp.zeros((1, 1, 1)), log_distribution[rollouts.top_tokens]
        )
        return part(scores, rollouts)[0].sum()

    for probs in (policy, DISTRIBUTION):
        value, gradient = jax.value_and_grad(cost)(jnp.array(np.log(probs)))
        kept = proxy > 0
        assert_close(value, (proxy[kept] * np.log(proxy[kept] / probs[kept])).sum())
        assert_close(gradient, probs - proxy)


def test_lp_reg_bears_illegal_tokens_and_padding():
    rollouts = lp_rollouts([0, 0], [1.0, 1.0], probs=np.array([0.75, 0.25]), mask=[[[True], [False]]])
    top = jnp.array([[[[np.log(0.75), np.log(0.25), -np.inf]], [[np.nan, np.nan, np.nan]]]], jnp.float32)
    rollouts = dataclasses.replace(rollouts, top_tokens=jnp.zeros(top.shape, jnp.int32), top_log_probs=top)
    scores = PolicyScores(rollouts.behaviour_log_probs, jnp.zeros((1, 2, 1)), top)

    def total(scores):
        return LowProbabilityRegulariser()(scores, rollouts)[0].sum()

    value, gradient = jax.value_and_grad(total)(scores)
    assert_close(value, 0.0)
    assert_close(gradient.top_log_probs, [[[[-0.75, -0.25, 0.0]], [[0.0, 0.0, 0.0]]]])


@pytest.mark.parametrize(
    ("probability", "value", "slope"), [(0.05, 0.142447, -0.632653), (0.1, 0.0, 0.0), (0.004064276, 10.0, 0.0)]
)
def test_the_released_lp_reg_pulls_one_token_up(probability, value, slope):
    """The proxy of 0.08 is 0.08 / 0.98, over 0.05 it is x = 1.632653: x - log x - 1, with slope 1 - x; above it, 0.

    At a gap of 3, exp(3) - 4 = 16.1 is more than the 10 at which the released penalty is clamped.
    """
    rollouts = lp_rollouts([2], [1.0])
    part = LowProbabilityRegulariser(kappa=0.05, form="code")

    def cost(log_probs):
        return part(PolicyScores(log_probs, log_probs, rollouts.top_log_probs), rollouts)[0].sum()

    actual = jax.value_and_grad(cost)(jnp.full((1, 1, 1), np.log(probability)))
    assert_close(actual[0], value)
    assert_close(actual[1], [[[slope]]])


def test_lp_reg_asks_for_its_tokens():
    assert make("lp_reg").top_tokens == 20
    assert make("lp_reg(likeliest=5)").top_tokens == 5
