"""Regressions of an implicit reward, by numbers and identities derived by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.dynamics.cases import WALKS
from ipsrl.dynamics.expected_update import Steps
from ipsrl.environments.graphs.tree import Tree
from ipsrl.objectives import make
from ipsrl.objectives.catalog.implicit_rewards import BellmanRegression
from ipsrl.policies.policy import Actions, score_logits
from ipsrl.structures import PolicyScores, Sizes
from tests.objectives.groups import all_groups, assert_close, bandit_rollouts, rollouts_of
from tests.objectives.mean_updates import mean_update

LOGITS = jnp.array([0.4, -0.3, 1.1, 0.0])
REWARDS = jnp.array([1.0, 1.0, 0.0, 0.3])
REFERENCE = jnp.log(jnp.array([0.4, 0.1, 0.3, 0.2]))


def regularised(logits):
    """E[r] - 0.3 KL(pi || pi_ref)."""
    log_probs = jax.nn.log_softmax(logits)
    return jnp.exp(log_probs) @ (REWARDS - 0.3 * (log_probs - REFERENCE))


def loss(text, rollouts, log_probs):
    output = make(text)(PolicyScores(log_probs, jnp.zeros_like(log_probs)), rollouts)
    return output.loss_sum / output.count


def one_group(rewards, **fields):
    return rollouts_of(np.zeros((1, len(rewards), 2)), rewards=np.float32([rewards]), **fields)


# GVPO


def test_towards_a_reference_it_is_the_regularised_return():
    for group in (2, 4):
        found = mean_update(make("gvpo(beta=0.3, anchor=reference)"), LOGITS, REWARDS, group, reference=REFERENCE)
        np.testing.assert_allclose(found, 0.3 * jax.grad(regularised)(LOGITS), atol=1e-6)


@pytest.mark.parametrize("anchor", ["behaviour", "reference"])
def test_every_group_is_at_rest_at_the_tilted_anchor(anchor):
    """The policy that sampled may be any: the reference is uniform here, and the sampler is not."""
    sampler = jax.nn.log_softmax(LOGITS)
    rollouts = bandit_rollouts(all_groups(4, 3), REWARDS, sampler)
    tilted = (sampler if anchor == "behaviour" else 0.0) + REWARDS / 0.3
    scores = jax.nn.log_softmax(tilted)[rollouts.tokens]
    value, gradient = jax.value_and_grad(
        lambda log_probs: loss(f"gvpo(beta=0.3, anchor={anchor})", rollouts, log_probs)
    )(scores)
    assert value < 1e-12
    assert np.abs(gradient).max() < 1e-7


# A*-PO


def weighed(text, batches):
    """The advantages of the last of several batches, `[P, G]`."""
    objective = make(text)
    state = objective.init(Sizes(num_prompts=3))
    for batch in batches:
        weights, state, _ = objective.weigh(batch, state)
    return np.asarray(weights.advantages[..., 0])


def of_prompt(rewards, ratios=None, prompt=2):
    """Two tokens each; the reference's probability of an answer over the sampler's."""
    ratios = np.ones(len(rewards)) if ratios is None else np.array(ratios)
    found = one_group(rewards, reference_log_probs=np.repeat(np.log(ratios)[None, :, None] / 2, 2, axis=-1))
    return dataclasses.replace(found, prompt_index=jnp.array([prompt]))


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


@pytest.mark.parametrize("beta1", [0.5, 2.0])
def test_the_optimal_value_is_only_a_baseline_on_policy(beta1):
    objective = make(f"a2po(beta1={beta1}, beta2=0.3)")
    found = mean_update(objective, LOGITS, REWARDS, 4, reference=REFERENCE)
    np.testing.assert_allclose(found, 0.6 * jax.grad(regularised)(LOGITS), atol=1e-6)


# ROVER


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
    rollouts = one_group([1, 0], proximal_log_probs=np.zeros((1, 2, 2)), proximal_mean_log_probs=np.zeros((1, 2, 2)))
    with pytest.raises(ValueError, match=r"reads mean_log_probs, which these scores do not have: take Policy\.score's"):
        loss("rover", rollouts, jnp.zeros((1, 2, 2)))


def test_the_first_step_of_rover_is_that_of_expected_return():
    """Twice beta times Dr. GRPO's by tokens, also on walks of one move or two, of which several have one outcome."""
    walks = Tree(depth=2, longest_step=2, rewards=(1.0, 1.0, 1.0))
    for environment, logits in ((None, LOGITS[:3]), (walks, jax.random.normal(jax.random.key(0), (3, 4)))):
        exact, found = (
            mean_update(make(text), logits, jnp.array([1.0, 0.6, 0.0]), 4, environment=environment)
            for text in ("dr_grpo(aggregation=token_mean)", "rover(beta=0.7)")
        )
        np.testing.assert_allclose(found, 1.4 * exact, atol=1e-6)
        assert np.abs(exact).max() > 0.01


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


@dataclasses.dataclass(frozen=True)
class WithoutNext(BellmanRegression):
    """No value of the next state."""

    def __call__(self, scores, rollouts, advantages):
        unmoved = dataclasses.replace(scores, mean_log_probs=rollouts.proximal_mean_log_probs)
        return super().__call__(unmoved, rollouts, advantages)


def test_several_steps_hold_back_a_move_to_a_state_in_which_a_token_was_unlearned():
    """One of two first moves leads to right answers only; two paths do not help the outcome that both can reach."""
    rewards, first = jnp.array([1.0, 1.0, 0.0]), []
    for objective in (make("rover"), dataclasses.replace(make("rover"), surrogate=WithoutNext())):
        update = mean_update(objective, jnp.zeros((3, 2)), rewards, 8, environment=WALKS, steps=Steps(64, 0.5))
        first.append(float(jax.nn.softmax(0.5 * update[0])[0]))
    assert first == pytest.approx([0.363, 0.393], abs=2e-3)
    # Equal rewards move nothing, where the uniform policy would give half to the outcome with two paths.
    logits = jnp.array([[0.3, -0.3], [0.5, -0.2], [-0.4, 0.1]])
    equal = mean_update(make("rover"), logits, jnp.ones(3), 4, environment=WALKS, steps=Steps(4, 0.5))
    assert np.abs(equal).max() < 1e-6
