import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.rewards import RewardTable
from ipsrl.rollouts.sources.source import Actors, Request, Sampled
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


def test_the_gradient_at_adapted_parameters_is_that_of_the_loss_there():
    """Derived by hand: dr_grpo on-policy is the mean of (r - group mean) times the score."""
    parameters = {"logits": jnp.array([[0.5, -0.3, 0.2]])}
    there = adapted(parameters, TASKS[0], 7)
    found, _ = of_task(there, TASKS[0], 7, INNER_STEPS)
    _, (trajectories, outcomes), _ = SOURCE(RewardTable(TASKS[0]), Actors(there), Request(7, INNER_STEPS))
    arms, rewards = np.asarray(trajectories.tokens)[0, :, 0], np.asarray(outcomes.rewards)[0]
    probs = np.asarray(jax.nn.softmax(there["logits"][0]))
    expected = -((rewards - rewards.mean())[:, None] * (np.eye(3)[arms] - probs)).mean(axis=0)
    np.testing.assert_allclose(found["logits"][0], expected, atol=1e-6)


def test_inner_loops_map_over_tasks():
    parameters = {"logits": jnp.zeros((1, 3))}
    together = jax.vmap(functools.partial(adapted, parameters))(TASKS, jnp.arange(2))
    for number, task in enumerate(TASKS):
        np.testing.assert_allclose(together["logits"][number], adapted(parameters, task, number)["logits"], atol=1e-6)
