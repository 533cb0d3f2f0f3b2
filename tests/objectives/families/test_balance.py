import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.graphs.tree import Tree
from ipsrl.objectives import make
from tests.objectives.groups import assert_close, every_walk, random_rollouts, rollouts_of, scores_of
from tests.tiers import slow_after

TREE = Tree()
REWARDS = np.array(TREE.rewards)
LOSSES = ["trajectory_balance", "vargrad", "detailed_balance", "subtrajectory_balance"]


def balanced():
    """log F of every state of the tree, and the policy F(s') P_B(s|s') / F(s), for the uniform P_B."""
    states = np.arange(TREE.num_observations)
    flows = np.append(np.zeros(TREE.num_observations), REWARDS)
    policy = np.zeros((TREE.num_observations, TREE.vocabulary_size))
    parents = np.asarray(TREE.num_parents(np.arange(len(flows))))
    for state in states[::-1]:
        for move in np.flatnonzero(TREE.legal(state)):
            reached = int(TREE.step(state, move))
            policy[state, move] = flows[reached] / parents[reached]
        flows[state] = policy[state].sum()
        policy[state] /= flows[state]
    with np.errstate(divide="ignore"):
        return jnp.log(jnp.asarray(flows)), jnp.log(jnp.asarray(policy))


def own_parameters(objective, log_flows):
    """The parameters that the objective should learn."""
    right = {"log_partition": log_flows[:1], "log_flows": log_flows[None]}
    return {name: right[name] for name in objective.init_parameters(TREE.sizes)}


def loss(objective, scores, parameters, rollouts):
    weights, _, _ = objective.weigh(rollouts, objective.init(TREE.sizes))
    output = objective.loss(scores, rollouts, weights, parameters)
    return output.loss_sum / output.count


@pytest.mark.parametrize("text", slow_after(1, LOSSES))
def test_loss_and_gradient_vanish_where_the_policy_has_its_distribution(text):
    log_flows, policy = balanced()
    assert_close(jnp.exp(log_flows[0]), 2.05)
    assert_close(TREE.terminal_distribution(policy), REWARDS / 2.05)
    objective, rollouts = make(text), every_walk(TREE, policy)
    at_optimum = (scores_of(rollouts.behaviour_log_probs), own_parameters(objective, log_flows))
    value, gradients = jax.jit(jax.value_and_grad(lambda inputs: loss(objective, *inputs, rollouts)))(at_optimum)
    assert abs(value) < 1e-11
    assert all(np.abs(leaf).max() < 1e-5 for leaf in jax.tree.leaves(gradients))
    elsewhere = every_walk(TREE)
    assert loss(objective, scores_of(elsewhere.behaviour_log_probs), at_optimum[1], elsewhere) > 0.1


@pytest.mark.parametrize("decay", [0.5, 1.0])
def test_sub_trajectories_by_brute_force(decay):
    """All pairs of states one by one, value and gradients."""
    rollouts, scores = random_rollouts(1, prompts=2, group=3, length=6, binary=False)
    objective = make(f"subtrajectory_balance(decay={decay})")
    point = np.float64(scores.log_probs), np.random.default_rng(0).normal(0, 3, (2, 9))
    lengths, states = np.asarray(rollouts.token_mask.sum(axis=-1)), np.asarray(rollouts.observations)
    log_backward, log_rewards = np.float64(rollouts.step_log_backward), np.log(np.float64(rollouts.rewards))

    def one_by_one(log_probs, log_flows):
        total = 0.0
        for prompt, answer in np.ndindex(2, 3):
            length = lengths[prompt, answer]
            heights = [*log_flows[prompt, states[prompt, answer, :length]], log_rewards[prompt, answer]]
            steps = (log_probs - log_backward)[prompt, answer]
            parts = [(i, j) for j in range(length + 1) for i in range(j)]
            squares = sum(decay ** (j - i) * (heights[i] + steps[i:j].sum() - heights[j]) ** 2 for i, j in parts)
            total += squares / sum(decay ** (j - i) for i, j in parts)
        return total / 6

    @jax.jit
    def scanned(log_probs, log_flows):
        return loss(objective, scores_of(log_probs), {"log_flows": log_flows}, rollouts)

    value, gradients = jax.value_and_grad(scanned, argnums=(0, 1))(*map(jnp.float32, point))
    np.testing.assert_allclose(value, one_by_one(*point), rtol=2e-4)
    for number, gradient in enumerate(gradients):
        for place in np.ndindex(gradient.shape):
            ends = []
            for side in (1e-5, -1e-5):
                moved = [array.copy() for array in point]
                moved[number][place] += side
                ends.append(one_by_one(*moved))
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=2e-4, abs=1e-4)


def test_flowrl_is_zero_at_the_reference_tilted_by_length():
    """log pi = log pi_ref + length (beta A - log Z): 0.5 - 0.25 for one token, 2 (-0.5 - 0.25) for two."""
    log_probs = jnp.float32(np.log(0.5) + np.array([[[0.25, 5.0], [-0.9, -0.6]]]))
    rollouts = rollouts_of(
        log_probs,
        mask=[[[True, False], [True, True]]],
        rewards=[[1.0, 0.0]],
        reference_log_probs=np.full((1, 2, 2), np.log(0.5)),
    )
    objective, log_partition = make("flowrl(beta=0.5)"), {"log_partition": jnp.array([0.25])}
    value, gradient = jax.value_and_grad(lambda scores: loss(objective, scores, log_partition, rollouts))(
        scores_of(log_probs)
    )
    assert abs(value) < 1e-12
    np.testing.assert_allclose(gradient.log_probs, 0.0, atol=1e-6)


@pytest.mark.parametrize("text", ["vargrad", "gvpo(anchor=reference)", "flowrl(partition=group)"])
def test_a_group_of_equal_answers_has_no_variance(text):
    """The mean of seven times 0.1 is not 0.1 in float32, and Adam would make a step of full size of the difference."""
    shape = (1, 7, 1)
    fields = {"log_backward": np.zeros((1, 7), np.float32), "reference_log_probs": np.full(shape, -0.6, np.float32)}
    rollouts = rollouts_of(np.full(shape, -0.5), **fields)
    objective = make(text)

    gradient = jax.jit(jax.grad(lambda log_probs: objective(scores_of(log_probs), rollouts).loss_sum))
    assert not np.asarray(gradient(jnp.full(shape, -0.7))).any()
