"""Groups of more than a thousand answers in float32, whose counts and products of counts must not overflow."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from ipsrl.objectives import make, names
from tests.objectives.groups import greedy_of, parts_of, random_rollouts, sizes
from tests.objectives.halves import losing, weighing
from tests.tiers import slow_unless

PROMPTS, GROUP, LENGTH = 2, 1100, 2
CORE = {"setpo"}
"""Rows that multiply counts."""


@functools.cache
def large_groups():
    """All but one answer of the first group have one outcome, and few of the second are right."""
    rollouts, scores = random_rollouts(1, PROMPTS, GROUP, LENGTH)
    places = np.arange(GROUP)
    outcomes = np.stack([places == GROUP - 1, places % 3]).astype(np.int32)
    rewards = np.stack([places % 2 == 0, places % 300 == 0]).astype(np.float32)
    of_rewards = {"rewards": rewards, "reward_parts": parts_of(rewards), "greedy_rewards": greedy_of(rewards)}
    return dataclasses.replace(rollouts, outcome_id=outcomes, **of_rewards), scores


def in_float64(structure):
    """Floats become float64; then JAX computes by integers of 64 bits, too."""
    return jax.tree.map(lambda leaf: np.float64(leaf) if leaf.dtype == np.float32 else leaf, structure)


@functools.partial(jax.jit, static_argnames="objective")
def weights_of(objective, rollouts):
    return objective.weigh(rollouts, objective.init(sizes(PROMPTS)))[0]


@functools.partial(jax.jit, static_argnames="objective")
def gradient_of(objective, scores, rollouts, weights):
    def loss(scores):
        return objective.loss(scores, rollouts, weights, objective.init_parameters(sizes(PROMPTS))).loss_sum

    return jax.grad(loss)(scores).log_probs


@functools.cache
def weights_in_both(weighing_half):
    rollouts, _ = large_groups()
    found = jax.device_get(weights_of(weighing_half, rollouts))
    with jax.enable_x64(True):
        return found, jax.device_get(weights_of(weighing_half, in_float64(rollouts)))


def assert_close_within_groups(found, expected):
    """Up to a thousandth of the largest of the group."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3 * np.abs(other).max())


@pytest.mark.parametrize("text", slow_unless(CORE, names()))
def test_large_groups_are_those_of_float64_and_integers_of_64_bits(text):
    objective, (rollouts, scores) = make(text), large_groups()
    found, expected = weights_in_both(weighing(objective))
    jax.tree.map(assert_close_within_groups, found, expected)
    gradient = gradient_of(losing(objective), scores, rollouts, found)
    with jax.enable_x64(True):
        exact = gradient_of(losing(objective), *in_float64((scores, rollouts, found)))
    assert_close_within_groups(np.asarray(gradient), np.asarray(exact))
