"""Rows, in which other trainers hold answers: one answer in each, in any order; and the groups that they belong to."""

import dataclasses
import json
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.structures import Rollouts


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rows:
    """B answers of T tokens, one in each row.

    Attributes:
      prompt_index: `[B]` int32, the prompt of each.
      rewards: `[B]` float32.
      outcome_id: `[B]` int32, equal within a prompt where outcomes are; -1 is no valid outcome.
      tokens: `[B, T]` int32.
      token_mask: `[B, T]` bool, True on every token that the policy wrote.
      truncated: `[B]` bool, True where an answer was cut off.
      behaviour_log_probs, behaviour_entropy: `[B, T]` float32, of the policy that sampled; None where they are those of
        the policy being trained.
      reference_log_probs: `[B, T]` float32, or None.
    """

    prompt_index: Array
    rewards: Array
    outcome_id: Array
    tokens: Array
    token_mask: Array
    truncated: Array
    behaviour_log_probs: Array | None = None
    behaviour_entropy: Array | None = None
    reference_log_probs: Array | None = None

    @classmethod
    def of(cls, rollouts: Rollouts) -> "Rows":
        """The answers of groups, prompt by prompt."""
        flat = {name: getattr(rollouts, name) for name in FLAT}
        rows = {name: None if field is None else field.reshape(-1, *field.shape[2:]) for name, field in flat.items()}
        return cls(prompt_index=jnp.repeat(rollouts.prompt_index, rollouts.tokens.shape[1]), **rows)


FLAT = [field.name for field in dataclasses.fields(Rows) if field.name != "prompt_index"]


def prompt_name(prompt: Any) -> str:
    """The name of a prompt: a text, messages, or whatever tells prompts apart."""
    return json.dumps(prompt, sort_keys=True, default=str)


def groups_of(prompts: Sequence[Hashable], group_size: int) -> np.ndarray:
    """`[P, G]` int32, the rows of each group, in the order of their first rows.

    Several groups of a prompt may be in a batch: they are cut apart in the order of the rows.

    Raises:
      ValueError: the answers of a prompt are no multiple of the group size.
    """
    rows: dict[Hashable, list[int]] = {}
    for row, prompt in enumerate(prompts):
        rows.setdefault(prompt, []).append(row)
    for prompt, found in rows.items():
        if len(found) % group_size:
            raise ValueError(
                f"a batch has {len(found)} answers to the prompt {str(prompt)[:60]!r}, which must be a multiple of the "
                f"group size, {group_size}: let all answers of a group come in one batch"
            )
    groups = np.concatenate([np.array(found).reshape(-1, group_size) for found in rows.values()])
    return groups[np.argsort(groups[:, 0])].astype(np.int32)


def numbered(outcomes: Sequence[Hashable | None]) -> np.ndarray:
    """`[B]` int32, a number for each of the different outcomes of a batch; -1 for None.

    Raises:
      ValueError: an outcome is not hashable.
    """
    numbers: dict[Hashable, int] = {}
    try:
        return np.array([-1 if one is None else numbers.setdefault(one, len(numbers)) for one in outcomes], np.int32)
    except TypeError:
        unhashable = next(one for one in outcomes if one is not None and not isinstance(one, Hashable))
        raise ValueError(
            f"outcome_of gave {unhashable!r:.60}, which cannot be hashed: give a text, a number or a tuple of these"
        ) from None


def rollouts_of(rows: Rows, groups: Array, key: Array | None = None) -> Rollouts:
    """The groups `[P, G]` of rows, as objectives read them.

    Observations are 0, and the backward policy gives 1, as it does where only one answer leads to an outcome: only
    objectives may read it for which that is right.
    """
    taken = jax.tree.map(lambda values: values[groups], rows)
    zeros = jnp.zeros(taken.tokens.shape, jnp.float32)
    return Rollouts(
        prompt_index=taken.prompt_index[:, 0],
        observations=jnp.zeros_like(taken.tokens),
        tokens=taken.tokens,
        token_mask=taken.token_mask,
        behaviour_log_probs=zeros if taken.behaviour_log_probs is None else taken.behaviour_log_probs,
        behaviour_entropy=zeros if taken.behaviour_entropy is None else taken.behaviour_entropy,
        rewards=taken.rewards,
        outcome_id=taken.outcome_id,
        truncated=taken.truncated,
        log_backward=jnp.zeros_like(taken.rewards),
        reference_log_probs=taken.reference_log_probs,
        keys=None if key is None else jax.random.split(key, len(groups)),
    )
