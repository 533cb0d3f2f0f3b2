"""Batches that every objective is asked about: reordered, rewarded anew, off-policy, wider and with empty answers."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.structures import ROLLOUT_AXES
from tests.objectives.groups import greedy_of, parts_of, random_rollouts

PROMPTS, GROUP, LENGTH = 4, 7, 5  # float32's mean of seven times 0.1 is not 0.1
PADDING = 3
FREE = 3  # places of a group that hold empty answers
BETWEEN = np.array([5, 0, 6, 1, 7, 2, 3, 4])  # columns of wide arrays, the padding before and between the tokens
GROUP_FIELDS = [name for name, axes in ROLLOUT_AXES.items() if axes.startswith("PG")]
TOKEN_FIELDS = [name for name, axes in ROLLOUT_AXES.items() if axes.startswith("PGT")]
PROMPT_FIELDS = [name for name, axes in ROLLOUT_AXES.items() if axes == "PL"]
ORDERS = [np.random.default_rng(1).permutation(size) for size in (PROMPTS, GROUP)]


def replace_fields(change, structure, fields):
    return dataclasses.replace(structure, **{name: change(getattr(structure, name)) for name in fields})


def in_numpy(structure):
    """All arrays but keys: operations on those of JAX are compiled one by one."""
    return jax.tree.map(
        lambda leaf: leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.asarray(leaf), structure
    )


def stacked(batches):
    return jax.tree.map(lambda *leaves: (np if isinstance(leaves[0], np.ndarray) else jnp).stack(leaves), *batches)


@functools.cache
def rollouts_in_numpy(seed, group=GROUP):
    return in_numpy(random_rollouts(seed, PROMPTS, group, LENGTH))


def reordered(axis, rollouts, scores):
    def reorder(values):
        return values[ORDERS[axis]] if axis == 0 else np.take(values, ORDERS[axis], axis)

    rollouts = jax.tree.map(reorder, rollouts) if axis == 0 else replace_fields(reorder, rollouts, GROUP_FIELDS)
    return rollouts, jax.tree.map(reorder, scores)


def padded(rollouts, scores, padding, garbage):
    """Wider arrays; what lies behind the masks is 0, or garbage."""
    rng = np.random.default_rng(2)

    def pad(values, columns=(0, padding), axis=2):
        widths = [(0, 0)] * values.ndim
        widths[axis] = columns
        wide = np.pad(values, widths)
        if values.dtype == bool or not garbage:
            return wide
        return np.where(np.pad(np.ones(values.shape, bool), widths), wide, rng.uniform(-60, 60, wide.shape)).astype(
            values.dtype
        )

    rollouts = replace_fields(pad, rollouts, TOKEN_FIELDS)
    rollouts = replace_fields(lambda values: pad(values, (2, 0), axis=1), rollouts, PROMPT_FIELDS)
    return rollouts, jax.tree.map(pad, scores)


def with_rewards(rollouts, rewards, **fields):
    fields |= {"reward_parts": parts_of(rewards), "greedy_rewards": greedy_of(rewards)}
    return dataclasses.replace(rollouts, rewards=rewards, **in_numpy(fields))


def unlikely():
    """Groups of all kinds of rewards, whose answers are as unlikely as those of language models are."""
    rollouts, scores = rollouts_in_numpy(4)
    rewards = [np.roll(np.float32([1.25, 0.95, 1.0, 0.0, 0.0, 1.0, 0.0]), place) for place in range(PROMPTS)]

    def rarer(log_probs):
        return np.where(rollouts.token_mask, log_probs - np.float32(8.0), log_probs)

    policies = ("behaviour_log_probs", "reference_log_probs", "proximal_log_probs")
    rollouts = replace_fields(rarer, rollouts, policies)
    return with_rewards(rollouts, np.stack(rewards)), replace_fields(rarer, scores, ["log_probs"])


BESIDE_EMPTY = ["plain", "unlikely"]
"""The first of `batches`: groups that get empty answers, too."""


@functools.cache
def batches(padding):
    """A batch whose groups have no reward, reward for all, and twice both, and the wide batches made from it."""
    rollouts, scores = rollouts_in_numpy(0)
    # No reward is the mean of its group: clips would look at the sign of a rounding error. One group has a single best.
    rewards = rollouts.rewards.copy()
    rewards[0], rewards[1], rewards[2:, 0], rewards[3, 1] = 0.0, 1.0, 0.95, 1.25
    rollouts = with_rewards(rollouts, rewards)
    equal = np.full_like(rewards, 0.1)
    assert (jnp.mean(equal, axis=-1) != equal[:, 0]).all()  # so that subtracting the mean alone would not do
    almost = np.where(np.arange(GROUP) % 3 == 1, np.float32(0.3) * np.float32(3), np.float32(0.9))[None].repeat(
        PROMPTS, 0
    )
    assert (almost[:, 0] != almost[:, 1]).all()
    one_outcome = np.ones_like(rollouts.outcome_id)

    def rewarded(rewards, **fields):
        return with_rewards(rollouts, rewards, **fields), scores

    def stale(log_ratio):
        return rollouts, dataclasses.replace(scores, log_probs=rollouts.behaviour_log_probs + np.float32(log_ratio))

    wide = {
        "plain": (rollouts, scores),
        "unlikely": unlikely(),
        "prompts": reordered(0, rollouts, scores),
        "group": reordered(1, rollouts, scores),
        "shifted": rewarded(rewards + np.float32(0.75)),
        "scaled": rewarded(rewards * np.float32(3.0)),
        "no reward": rewarded(np.zeros_like(equal)),
        "one outcome": rewarded(equal, outcome_id=one_outcome),
        "one outcome but for rounding": rewarded(almost, outcome_id=one_outcome),
        "equal rewards": rewarded(equal),
        "equal but for rounding": rewarded(almost),
        "stale": stale(100.0),
        "fresh": stale(-100.0),
    }
    wide = {name: padded(*batch, padding, garbage=False) for name, batch in wide.items()}
    wide["garbage"] = padded(rollouts, scores, padding, garbage=True)
    columns = BETWEEN if padding else np.arange(LENGTH)
    of_others, of_scores = wide["garbage"]
    wide["dictated"] = (
        replace_fields(lambda values: values[:, :, columns], of_others, TOKEN_FIELDS),
        jax.tree.map(lambda values: values[:, :, columns], of_scores),
    )
    return (rollouts, scores), list(wide), stacked(wide.values())


def with_places(leaf):
    """`FREE` more places in each group."""
    return np.pad(leaf, [(0, 0), (0, FREE), *[(0, 0)] * (leaf.ndim - 2)])


def with_empty_answers(rollouts, scores):
    """Groups whose further places hold what `best_answers` and `replayed_modes` put there."""
    rollouts = replace_fields(with_places, rollouts, GROUP_FIELDS)
    free = np.arange(GROUP + FREE) >= GROUP
    marks = {"outcome_id": np.where(free, np.int32(-1), rollouts.outcome_id), "off_policy": rollouts.off_policy | free}
    return dataclasses.replace(rollouts, **marks), jax.tree.map(with_places, scores)
