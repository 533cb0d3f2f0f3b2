import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.objectives.catalog.plans import ControlAndResponse, planned_tokens
from ipsrl.objectives.surrogates import ClippedRatio
from ipsrl.structures import PolicyScores
from tests.objectives.groups import assert_close, rollouts_of, token_advantages


def test_bonus_on_the_first_of_two_tokens():
    rollouts = rollouts_of(
        np.zeros((1, 4, 2)),
        rewards=np.array([[1, 0, 0, 0]], np.float32),
        planning_mask=np.broadcast_to([True, False], (1, 4, 2)),
    )
    assert_close(token_advantages("hicra(failures=sharpened)", rollouts), [[[0.9, 0.75], *[[-0.3, -0.25]] * 3]])


def test_which_tokens_plan():
    mask = np.arange(5) < np.array([[[5], [3], [0]]])
    rollouts = rollouts_of(
        np.zeros((1, 3, 5)),
        mask,
        planning_mask=np.array([[[0, 0, 1, 1, 0], [0, 1, 0, 1, 1], [1, 1, 1, 1, 1]]], bool),
        behaviour_entropy=np.array([[[0.3, 0.9, 0.1, 0.3, 0.3], [0.2, 0.1, 0.5, 9, 9], [9, 9, 9, 9, 9]]], np.float32),
        keys=jax.random.split(jax.random.key(3), 1),
    )
    chosen = {planned: planned_tokens(rollouts, planned) for planned in ("planning_mask", "high_entropy", "first")}
    none = [False] * 5
    assert chosen["planning_mask"].tolist() == [[[False, False, True, True, False], [False, True, *none[:3]], none]]
    # Of three tokens with entropy 0.3, the first.
    assert chosen["high_entropy"].tolist() == [[[True, True, *none[:3]], [False, False, True, *none[:2]], none]]
    assert chosen["first"].tolist() == [[[True, *none[:4]], [True, *none[:4]], none]]


def test_random_tokens_are_as_many_and_equally_likely():
    """2 of 4 real tokens: each is sampled in half of 4000 answers, within five standard errors."""
    shape = (2000, 2, 6)
    mask = np.broadcast_to(np.arange(6) < 4, shape)
    rollouts = rollouts_of(
        np.zeros(shape),
        mask,
        planning_mask=np.broadcast_to([False, True, True, False, True, True], shape),
        keys=jax.random.split(jax.random.key(0), shape[0]),
    )
    chosen = np.asarray(planned_tokens(rollouts, "random"))
    assert (chosen.sum(axis=-1) == 2).all()
    assert not chosen[~mask].any()
    assert (np.abs(chosen[..., :4].mean(axis=(0, 1)) - 0.5) < 5 * np.sqrt(0.25 / 4000)).all()
    # The answers of a group draw apart: there are six pairs of tokens.
    together = (chosen[:, 0] == chosen[:, 1]).all(axis=-1).mean()
    assert abs(together - 1 / 6) < 5 * np.sqrt(1 / 6 * 5 / 6 / 2000)


LENGTHS = np.array([[4, 1, 2], [3, 3, 0]])


def control_batch():
    rng = np.random.default_rng(4)
    mask = np.arange(4) < LENGTHS[..., None]
    behaviour = np.where(mask, np.log(rng.uniform(0.2, 0.9, mask.shape)), 0.0)
    log_probs = np.where(mask, behaviour + rng.normal(0, 0.3, mask.shape), np.nan)
    reference = np.where(mask, behaviour + rng.normal(0, 0.3, mask.shape), 0.0)
    rewards = np.array([[1, 0, 0], [1, 1, 0]], np.float32)
    rollouts = rollouts_of(behaviour, mask, rewards=rewards, reference_log_probs=np.float32(reference))
    scores = PolicyScores(jnp.asarray(log_probs, jnp.float32), jnp.zeros(mask.shape))
    advantages = (rewards - rewards.mean(axis=-1, keepdims=True))[..., None]
    ratio = np.exp(log_probs - behaviour)
    surrogate = np.minimum(ratio * advantages, np.clip(ratio, 0.8, 1.2) * advantages)
    difference = log_probs - reference
    return rollouts, scores, surrogate, np.exp(-difference) + difference - 1


def test_the_paper_takes_the_mean_of_each_answer_and_the_code_that_of_all_response_tokens():
    """(1/G) sum [ alpha L_0 + (1/T) sum_(t >= 1) L_t ] - beta KL, where answers without tokens do not count.

    The code: alpha mean_i L_i0 + mean of all later tokens - beta * mean of the KL over all tokens.
    """
    rollouts, scores, surrogate, divergence = control_batch()
    output = make("degrpo(alpha=0.3, kl=0.05)")(scores, rollouts)
    total = 0.0
    for index in np.argwhere(LENGTHS):
        length = LENGTHS[tuple(index)]
        values, costs = surrogate[tuple(index)][:length], divergence[tuple(index)][:length]
        response = values[1:].mean() if length > 1 else 0.0
        total += 0.3 * values[0] + response - 0.05 * costs.mean()
    assert_close((output.loss_sum, output.count), (-total, 5))

    output = make("degrpo(alpha=0.3, response=token_mean, kl=0.05)")(scores, rollouts)
    total = 0.3 * np.nanmean(surrogate[..., 0]) + np.nanmean(surrogate[..., 1:]) - 0.05 * np.nanmean(divergence)
    assert_close((output.loss_sum / output.count, output.count), (-total, 13))


def test_a_dictated_control_token_is_no_choice():
    """Two answers of three tokens; the mode of the second is forced, so that all it chose is its response."""
    mask = np.array([[[1, 1, 1], [0, 1, 1]]], bool)
    rollouts = rollouts_of(np.zeros((1, 2, 3)), mask, rewards=np.array([[1, 0]], np.float32))
    scores = PolicyScores(jnp.zeros((1, 2, 3)), jnp.zeros((1, 2, 3)))
    assert planned_tokens(rollouts, "first").tolist() == [[[True, False, False], [False] * 3]]

    def weights(text):
        def value(log_probs):
            output = make(text)(PolicyScores(log_probs, scores.entropy), rollouts)
            return -output.loss_sum / output.count

        return jax.grad(value)(scores.log_probs)

    # Advantages are 1/2 and -1/2, each answer counts one half.
    assert_close(weights("degrpo(alpha=0.3, kl=0.0)"), [[[0.075, 0.125, 0.125], [0, -0.125, -0.125]]])
    by_code = weights("degrpo(alpha=0.3, response=token_mean, kl=0.0)")
    assert_close(by_code, [[[0.075, 0.125, 0.125], [0, -0.125, -0.125]]])


def test_values_without_weights_are_not_to_be_had():
    rollouts, scores, *_ = control_batch()
    with pytest.raises(TypeError, match="ControlAndResponse needs parameters or statistics: call evaluate"):
        ControlAndResponse(ClippedRatio())(scores, rollouts, jnp.zeros(rollouts.tokens.shape))
