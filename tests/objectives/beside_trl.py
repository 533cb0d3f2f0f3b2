"""Our side of the comparisons with TRL: rollouts that both get, and what an objective makes of them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl import objectives
from ipsrl.structures import Sizes
from tests.objectives import trl_trainers
from tests.objectives.groups import random_rollouts

GRPO = trl_trainers.ScriptedGRPO
RPO = {"beta": 0.5, "loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.2]}
LARGE = 1024.0
"""Beside rewards of this size TRL's epsilon, 1e-4, is nothing; ours may have any scale. A power of two changes no other
digit."""


def rollouts_with_ties(seed=0, scale=LARGE, group=4):
    """Four groups: rewards of 0, 1 and 2 times `scale`, the first group all equal; lengths from 1 to 6."""
    rollouts, scores = random_rollouts(seed, prompts=4, group=group, length=6)
    rewards = np.random.default_rng(seed).integers(0, 3, (4, group)).astype(np.float32)
    rewards[0] = 1.0
    rewards[1, :2] = 0.0, 2.0
    return dataclasses.replace(rollouts, rewards=jnp.asarray(scale * rewards)), scores


def made(text):
    """The objective, with TRL's standard deviation where it has one: that of G - 1."""
    objective = objectives.make(text)
    if not hasattr(objective.advantages, "unbiased"):
        return objective
    return dataclasses.replace(objective, advantages=dataclasses.replace(objective.advantages, unbiased=True))


def weighed(objective, rollouts):
    return objective.weigh(rollouts, objective.init(Sizes(len(rollouts.rewards))))[0]


def ours(objective, rollouts, scores, weights=None):
    """Loss, and its gradients by log-probabilities and by entropies."""
    weights = weighed(objective, rollouts) if weights is None else weights

    def loss(log_probs, entropy):
        output = objective.loss(dataclasses.replace(scores, log_probs=log_probs, entropy=entropy), rollouts, weights)
        return output.loss_sum / output.count

    value, gradients = jax.value_and_grad(loss, argnums=(0, 1))(scores.log_probs, scores.entropy)
    return value, *gradients


def assert_same(actual, expected):
    """Gradients to 1e-5 of their largest entry; losses, in which terms of order one cancel, to 1e-6."""
    for value, wanted in zip(actual, expected, strict=True):
        tolerance = 1e-5 * np.abs(wanted).max() if np.ndim(wanted) else 1e-6
        np.testing.assert_allclose(value, wanted, rtol=0, atol=tolerance)


def step_of(*arguments, **options):
    return trl_trainers.step(trl_trainers.trainer(*arguments, **options))


def pairs(seed=0, prompts=6):
    rollouts, scores = random_rollouts(seed, prompts, group=2, length=6)
    winner = np.random.default_rng(seed).integers(0, 2, prompts)
    return dataclasses.replace(rollouts, rewards=jnp.stack([winner, 1.0 - winner], axis=-1)), scores
