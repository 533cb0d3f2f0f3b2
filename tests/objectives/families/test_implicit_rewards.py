import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.dynamics.expected_update import Steps
from ipsrl.objectives import make
from ipsrl.policies.policy import Actions, score_logits
from tests.objectives.groups import assert_close, mean_update, rewarded, rollouts_of, scores_of, weighed_in_turn


def weighed(text, batches):
    """The advantages of the last of several batches, `[P, G]`."""
    return weighed_in_turn(text, batches, num_prompts=3)[0]


def of_prompt(rewards, ratios=None, prompt=2):
    """Two tokens each; the reference's probability of an answer over the sampler's."""
    ratios = np.ones(len(rewards)) if ratios is None else np.array(ratios)
    reference = np.repeat(np.log(ratios)[None, :, None] / 2, 2, axis=-1)
    return rollouts_of(0 * reference, rewards=[rewards], reference_log_probs=reference, prompt_index=[prompt])


def test_the_optimal_value_is_that_of_the_first_group():
    """V* = log((e + 1 + 1) / 3) of the first group, in which each answer is compared with the other two."""
    first, later = of_prompt([1, 0, 0]), of_prompt([0, 1, 1])
    found = weighed("a2po(beta1=1.0)", [first])
    assert_close(found, [[1.0, -np.log((np.e + 1) / 2), -np.log((np.e + 1) / 2)]])
    value = np.log((np.e + 2) / 3)
    assert_close(weighed("a2po(beta1=1.0)", [first, later, first]), [[1 - value, -value, -value]])
    elsewhere = of_prompt([1, 0, 0], prompt=0)
    other = 1 - np.log((np.e + 1) / 2)
    assert_close(weighed("a2po(beta1=1.0)", [elsewhere, later]), [[-1.0, other, other]])


def test_the_optimal_value_of_small_and_of_distant_rewards():
    """Nearly a mean, of rewards far below the temperature; far above, the largest counts, however unlikely."""
    found = weighed("a2po(value=others)", [of_prompt([1e-7, 0, 0, 0])])
    np.testing.assert_allclose(found, [[1e-7, -1e-7 / 3, -1e-7 / 3, -1e-7 / 3]], rtol=1e-4)
    found = weighed("a2po(beta1=1.0, value=others)", [of_prompt([0, 100, 0], [1, 1e-9, 1])])
    assert_close(found, [[-100 - np.log(1e-9), 100, -100 - np.log(1e-9)]])


def test_answers_without_tokens_have_no_part_in_the_optimal_value():
    """Weights 1, 2, 5: for the first answer V* = log((2 + 5 e) / 7); beside them an empty one would be all of it."""
    batch = of_prompt([1, 0, 1, 0, 0], np.array([1, 2, 5, 1, 1]) * 1e-12)
    batch = dataclasses.replace(batch, token_mask=batch.token_mask.at[:, 3:].set(False))
    found = weighed("a2po(beta1=1.0, value=others)", [batch])
    assert_close(found[:, :3], [[1 - np.log((2 + 5 * np.e) / 7), -1.0, 1 - np.log((np.e + 2) / 3)]])
    later = weighed("a2po(beta1=1.0)", [batch, of_prompt([0, 0])])
    assert_close(later, -np.log((6 * np.e + 2) / 8) * np.ones((1, 2)))


def released(old, new, tokens, mask, advantages, rho):
    """Loss and gradient by the new logits, as the authors' code computes them from logits `[B, L, V]`, in float64."""

    def log_softmax(logits):
        return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))

    chosen = np.eye(old.shape[-1])[tokens]
    q_values = rho * ((log_softmax(new) - log_softmax(old)) * chosen).sum(axis=-1) * mask
    means = [logits.mean(axis=-1) - np.log(np.exp(logits).sum(axis=-1)) for logits in (new, old)]
    next_q = np.concatenate([((means[0] - means[1])[:, 1:] * mask[:, 1:]), np.zeros((len(mask), 1))], axis=1)
    error = q_values - (advantages[:, None] * mask + rho * next_q)
    slopes = (2 * rho * error * mask / mask.sum())[..., None] * (chosen - np.exp(log_softmax(new)))
    return (error**2 * mask).sum() / mask.sum(), slopes


@pytest.mark.parametrize("rho", [1.0, 0.4])
def test_loss_and_gradient_by_the_logits_are_those_of_the_released_code(rho):
    """Two answers, of two and three tokens, from a vocabulary of four; the policy has moved since it sampled."""
    rng = np.random.default_rng(0)
    old, moves = rng.normal(size=(2, 2, 3, 4))
    tokens, mask = rng.integers(0, 4, (2, 3)), np.array([[1, 1, 0], [1, 1, 1]])
    expected = released(old, old + moves, tokens, mask, np.array([0.5, -0.5]), rho)
    actions = Actions(jnp.asarray(tokens[None]), jnp.asarray(mask[None], bool))
    before = score_logits(jnp.float32(old[None]), actions, 1.0)
    rollouts = rollouts_of(
        before.log_probs,
        mask[None],
        rewards=np.float32([[1, 0]]),
        proximal_log_probs=before.log_probs,
        proximal_mean_log_probs=before.mean_log_probs,
    )

    def of_logits(logits):
        output = make(f"rover(beta={rho})")(score_logits(logits, actions, 1.0), rollouts)
        return output.loss_sum / output.count

    value, gradient = jax.value_and_grad(of_logits)(jnp.float32(old + moves)[None])
    assert_close(value, expected[0])
    assert_close(gradient[0], expected[1])
    assert min(value, jnp.abs(gradient).max()) > 0.05


def test_scores_without_the_mean_over_all_tokens_are_refused():
    zeros = jnp.zeros((1, 2, 1))
    rollouts = rewarded([[1, 0]], proximal_log_probs=zeros, proximal_mean_log_probs=zeros)
    with pytest.raises(ValueError, match=r"reads mean_log_probs, which these scores do not have: take Policy\.score's"):
        make("rover")(scores_of(zeros), rollouts)


def share_of_drift(group, steps):
    """How much faster the likelier of two right arms rises than the rarer, relative to its rise above a wrong one."""
    update = mean_update(
        make("rover"), jnp.log(jnp.array([0.5, 0.3, 0.2])), jnp.array([1.0, 1.0, 0.0]), group, steps=Steps(steps, 0.5)
    )
    return float((update[0] - update[1]) / (update[0] - update[2]))


def test_more_steps_on_a_large_batch_keep_ties_and_on_a_small_one_lose_them_faster():
    """Fitted to a large group a single token is pi_old exp(A) / Z; of few answers the rarer arm is often missing."""
    assert share_of_drift(32, 1) == pytest.approx(0.2 / 1.3, abs=1e-3)
    assert share_of_drift(32, 4) == pytest.approx(0.08, abs=1e-2)
    assert share_of_drift(32, 64) == pytest.approx(0.003, abs=1e-3)
    assert share_of_drift(8, 64) == pytest.approx(0.04, abs=1e-2)
    assert share_of_drift(2, 64) == pytest.approx(0.95, abs=1e-2)
