"""Flow balance: exact zeros at the target distribution of a tree, residuals by brute force."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from groups import assert_close, random_rollouts, rollouts_of, sizes
from tree_walks import every_walk

from ipsrl.environments.tree import Tree
from ipsrl.objectives import make
from ipsrl.objectives.advantages.log_reward import LogReward
from ipsrl.structures import PolicyScores, Sizes

TREE = Tree()
REWARDS = np.array(TREE.rewards)
LOSSES = [
    "trajectory_balance",
    "vargrad",
    "detailed_balance",
    "detailed_balance(aggregation=sequence_sum)",
    "subtrajectory_balance",
    "subtrajectory_balance(decay=1.0)",
]


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
    """What the objective should learn."""
    right = {"log_partition": log_flows[:1], "log_flows": log_flows[None]}
    return {name: right[name] for name in objective.init_parameters(TREE.sizes)}


def loss(objective, scores, parameters, rollouts):
    weights, _, _ = objective.weigh(rollouts, objective.init(TREE.sizes))
    output = objective.loss(scores, rollouts, weights, parameters)
    return output.loss_sum / output.count


def scores_of(log_probs):
    return PolicyScores(log_probs, jnp.zeros_like(log_probs))


@pytest.mark.parametrize("text", LOSSES)
def test_loss_and_gradient_vanish_where_the_policy_has_its_distribution(text):
    log_flows, policy = balanced()
    assert_close(jnp.exp(log_flows[0]), 2.05)
    assert_close(TREE.terminal_distribution(policy), REWARDS / 2.05)
    objective, rollouts = make(text), every_walk(TREE, policy)
    at_optimum = (scores_of(rollouts.behaviour_log_probs), own_parameters(objective, log_flows))
    value, gradients = jax.value_and_grad(lambda inputs: loss(objective, *inputs, rollouts))(at_optimum)
    assert abs(value) < 1e-11
    assert all(np.abs(leaf).max() < 1e-5 for leaf in jax.tree.leaves(gradients))
    elsewhere = every_walk(TREE)
    assert loss(objective, scores_of(elsewhere.behaviour_log_probs), at_optimum[1], elsewhere) > 0.1


@pytest.mark.parametrize("decay", [0.01, 0.5, 0.9, 1.0])
def test_sub_trajectories_by_brute_force(decay):
    """All pairs of states one by one, value and gradients."""
    rollouts, scores = random_rollouts(1, prompts=2, group=3, length=6, binary=False)
    objective = make(f"subtrajectory_balance(decay={decay})")
    flows = jnp.asarray(np.random.default_rng(0).normal(0, 3, (2, 9)))
    lengths = np.asarray(rollouts.token_mask.sum(axis=-1))
    log_rewards = jnp.log(rollouts.rewards)

    def one_by_one(scores, parameters):
        total = 0.0
        for prompt, answer in np.ndindex(2, 3):
            length = lengths[prompt, answer]
            states = rollouts.observations[prompt, answer, :length]
            heights = [*parameters["log_flows"][prompt, states], log_rewards[prompt, answer]]
            steps = (scores.log_probs - rollouts.step_log_backward)[prompt, answer]
            parts = [(i, j) for j in range(length + 1) for i in range(j)]
            squares = sum(decay ** (j - i) * (heights[i] + steps[i:j].sum() - heights[j]) ** 2 for i, j in parts)
            total += squares / sum(decay ** (j - i) for i, j in parts)
        return total / 6

    def scanned(scores, parameters):
        return loss(objective, scores, parameters, rollouts)

    actual, expected = (
        jax.value_and_grad(function, argnums=(0, 1))(scores, {"log_flows": flows}) for function in (scanned, one_by_one)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4), actual, expected)


# FlowRL


def flowrl(text, log_probs, behaviour=None, log_partition=0.0):
    """Loss and gradient of a group of two, of lengths 1 and 2, whose advantages are 1 and -1; pi_ref is 1/2."""
    mask = [[[True, False], [True, True]]]
    log_probs = jnp.asarray(log_probs, jnp.float32)
    behaviour = log_probs if behaviour is None else behaviour
    rollouts = rollouts_of(
        behaviour, mask=mask, rewards=[[1.0, 0.0]], reference_log_probs=np.full((1, 2, 2), np.log(0.5))
    )
    objective = make(text)
    parameters = {name: jnp.array([log_partition]) for name in objective.init_parameters(Sizes(1))}
    return jax.value_and_grad(lambda scores: loss(objective, scores, parameters, rollouts))(scores_of(log_probs))


def test_flowrl_is_zero_at_the_reference_tilted_by_length():
    """log pi = log pi_ref + length (beta A - log Z): 0.5 - 0.25 for one token, 2 (-0.5 - 0.25) for two."""
    log_probs = np.log(0.5) + np.array([[[0.25, 5.0], [-0.9, -0.6]]])
    value, gradient = flowrl("flowrl(beta=0.5)", log_probs, log_partition=0.25)
    assert abs(value) < 1e-12
    np.testing.assert_allclose(gradient.log_probs, 0.0, atol=1e-6)


# Refusals


@pytest.mark.parametrize("name", ["detailed_balance", "subtrajectory_balance"])
def test_flows_need_numbered_states(name):
    objective = make(name)
    objective.check(frozenset({"step_log_backward"}), group_size=1, sizes=sizes(2))
    with pytest.raises(ValueError, match="this environment does not number states"):
        objective.check(frozenset({"step_log_backward"}), group_size=1, sizes=Sizes(2, num_outcomes=3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "trajectory_balance(learning_rate=0.0)",
            "the learning rate of log Z or the flows is 0.0, it must",
        ),
        (
            "detailed_balance(learning_rate=-1.0)",
            "the learning rate of log Z or the flows is -1.0, it must",
        ),
        ("trajectory_balance(reward_exponent=0)", "reward_exponent is 0, it must be positive and finite"),
        ("subtrajectory_balance(decay=0)", "decay is 0, it must lie above 0 and not above 1"),
        ("subtrajectory_balance(decay=1.1)", "decay is 1.1, it must lie above 0 and not above 1"),
        ("subtrajectory_balance(learning_rate=0)", "the learning rate of log Z or the flows is 0"),
        ("flowrl(beta=0)", "beta is 0, it must be positive and finite"),
        ("flowrl(clip_low=1.5)", "low must lie in [0, 1]"),
        ("flowrl(clip_high=-0.1)", "high from 0 up"),
        ("flowrl(learning_rate=0)", "the learning rate of log Z or the flows is 0"),
        ("flowrl(partition=group, learning_rate=0.5)", "learning_rate=0.5 belongs to partition=table: leave it out"),
        ("flowrl(released_weight=True, clip_low=0.9)", "does not clip: omit clip_low=0.9 and clip_high=0.2"),
        ("flowrl(released_weight=True, clip_high=3.0)", "does not clip: omit clip_low=0.2 and clip_high=3.0"),
    ],
)
def test_bad_arguments_are_refused(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make(text)


def test_a_floor_is_a_number():
    with pytest.raises(ValueError, match="log_reward_floor is -inf, it must be finite"):
        LogReward(floor=-np.inf)
