"""Inner loops use the three functions of a step: first-order MAML adapts to a task before it learns from it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.environments.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.rewards import RewardTable
from ipsrl.rollouts.sources.source import Actors, Request, Sampled
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.step import gradient, rollouts_of

pytestmark = pytest.mark.slow

# A task says which of two arms pays; a third never does.
TASKS = jnp.array([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]])
BANDIT, POLICY, OBJECTIVE = Bandit((0.0, 0.0, 0.0)), Tabular(1, 3), objectives.make("dr_grpo")
HOW = {"policy": POLICY, "objective": OBJECTIVE, "temperature": 1.0}
SOURCE, INNER_RATE, INNER_STEPS = Sampled(BANDIT, POLICY, 1, 64), 2.0, 3


def of_task(parameters, task, seed, step):
    """The gradient on groups of one task."""
    _, (trajectories, outcomes), _ = SOURCE(RewardTable(task), Actors(parameters), Request(seed, step))
    rollouts = rollouts_of(parameters, None, None, trajectories, outcomes, jax.random.key(0), **HOW)
    weights, _, _ = OBJECTIVE.weigh(rollouts, OBJECTIVE.init(BANDIT.sizes))
    (found, _), *_ = gradient((parameters, {}), None, (trajectories, rollouts, weights), **HOW)
    return found, rollouts.rewards.mean()


def adapted(parameters, task, seed):
    for step in range(INNER_STEPS):
        slope, _ = of_task(parameters, task, seed, step)
        parameters = jax.tree.map(lambda leaf, d: leaf - INNER_RATE * d, parameters, slope)
    return parameters


@jax.jit
def meta_gradient(parameters, seed):
    """First-order MAML (arXiv 1703.03400): the mean over tasks of the gradient at the adapted parameters."""

    def of_each(task, number):
        own = 2 * seed + number
        return of_task(adapted(parameters, task, own), task, own, INNER_STEPS)[0]

    return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(of_each)(TASKS, jnp.arange(2)))


def test_the_gradient_at_adapted_parameters_is_that_of_the_loss_there():
    """By hand: dr_grpo on-policy is the mean of (r - group mean) times the score."""
    parameters = {"logits": jnp.array([[0.5, -0.3, 0.2]])}
    there = adapted(parameters, TASKS[0], 7)
    found, _ = of_task(there, TASKS[0], 7, INNER_STEPS)
    _, (trajectories, outcomes), _ = SOURCE(RewardTable(TASKS[0]), Actors(there), Request(7, INNER_STEPS))
    arms, rewards = np.asarray(trajectories.tokens)[0, :, 0], np.asarray(outcomes.rewards)[0]
    probs = np.asarray(jax.nn.softmax(there["logits"][0]))
    expected = -((rewards - rewards.mean())[:, None] * (np.eye(3)[arms] - probs)).mean(axis=0)
    np.testing.assert_allclose(found["logits"][0], expected, atol=1e-6)


def test_maml_learns_to_be_adaptable():
    """It ends between the two arms that may pay, and a few steps of one task then find the one that does."""
    optimizer, parameters = make_optimizer("sgd", 1.0, None), {"logits": jnp.array([[0.0, -1.0, 1.0]])}
    state = optimizer.init(parameters)

    def reward(parameters):
        ends = [adapted(parameters, task, 900 + number) for number, task in enumerate(TASKS)]
        return np.mean([of_task(end, task, 900, INNER_STEPS)[1] for end, task in zip(ends, TASKS, strict=True)])

    before = reward(parameters)
    for seed in range(100):
        updates, state = optimizer.update(meta_gradient(parameters, seed), state)
        parameters = jax.tree.map(jnp.add, parameters, updates)
    probs = np.asarray(jax.nn.softmax(parameters["logits"][0]))
    assert probs[2] < 0.1
    assert abs(probs[0] - probs[1]) < 0.3
    assert reward(parameters) > max(0.8, before + 0.2)


def test_inner_loops_map_over_tasks():
    parameters = {"logits": jnp.zeros((1, 3))}
    together = jax.vmap(functools.partial(adapted, parameters))(TASKS, jnp.arange(2))
    for number, task in enumerate(TASKS):
        np.testing.assert_allclose(together["logits"][number], adapted(parameters, task, number)["logits"], atol=1e-6)
