"""Rows, in which other trainers hold answers: one answer in each, in any order; and the groups that they belong to."""

import dataclasses
import enum
import json
import numbers
from collections.abc import Hashable, Sequence
from decimal import Decimal
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.arguments import shown
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
      right_above: as in `Outcomes`.
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
    right_above: float = dataclasses.field(default=0.0, metadata={"static": True})

    @classmethod
    def of(cls, rollouts: Rollouts) -> "Rows":
        """The answers of groups, prompt by prompt."""
        flat = {name: getattr(rollouts, name) for name in FLAT}
        rows = {name: None if field is None else field.reshape(-1, *field.shape[2:]) for name, field in flat.items()}
        prompt_index = jnp.repeat(rollouts.prompt_index, rollouts.tokens.shape[1])
        return cls(prompt_index=prompt_index, **rows, right_above=rollouts.right_above)


FLAT = [field.name for field in dataclasses.fields(Rows) if field.name not in ("prompt_index", "right_above")]


def prompt_name(prompt: Any) -> str:
    """The name of a prompt: a text, messages, or whatever tells prompts apart."""
    return json.dumps(prompt, sort_keys=True, default=str)


def groups_of(prompts: Sequence[Hashable], group_size: int) -> np.ndarray:
    """`[P, G]` int32, the rows of each group, in the order of their first rows.

    Several groups of a prompt may be in a batch: they are cut apart in the order of the rows.

    Raises:
      ValueError: the number of answers to a prompt is not a multiple of the group size.
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


def canonical(value: Hashable) -> str:
    """A text that two values share if they are equal, the same in all processes and versions of NumPy.

    Numbers go by their value, whatever their type, texts, tuples and frozensets by what is in them, members of an
    enumeration by its name and theirs.

    Raises:
      ValueError: the value is none of these: its text may be that of another one, or change from process to process.
    """
    if isinstance(value, np.generic) and value.dtype.kind in "biufcUS":
        value = value.item()
    if isinstance(value, str):
        # A text that is a member of an enumeration is equal to the text.
        return json.dumps("".join(value))
    if isinstance(value, bytes):
        return repr(bytes(value))
    if isinstance(value, complex):
        real, imaginary = canonical(value.real), canonical(value.imag)
        return f"{real} + {imaginary} j" if value.imag else real
    # A span of time of NumPy calls itself a whole number.
    if isinstance(value, numbers.Real | Decimal) and not isinstance(value, np.timedelta64):
        try:
            return "{}/{}".format(*value.as_integer_ratio())
        # Infinite, or NaN as the name of a prompt.
        except (OverflowError, ValueError):
            return str(float(value))
    if isinstance(value, tuple):
        return f"({', '.join(map(canonical, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(canonical, value)))}}}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__module__}.{type(value).__qualname__}.{value.name}"
    if value is None:
        return "None"
    raise ValueError(
        f"the prompt or outcome {shown(value)} has no name that lasts from batch to batch: give a text, a number, "
        "bytes, a member of an enumeration, or a tuple or frozenset of these"
    )


def outcome_names(outcomes: Sequence[Hashable | None]) -> list[str | None]:
    """The `canonical` name of each outcome; None where there is none: None, NaN, and what pandas has for it.

    Raises:
      ValueError: an outcome is not hashable, or has no such name.
    """
    return [None if outcome is None else canonical(outcome) for outcome in map(_read, outcomes)]


def _read(outcome: Any) -> Hashable | None:
    """An outcome as equal ones compare: None for what is missing, also inside tuples, a number for an array of one."""
    if getattr(outcome, "ndim", None) == 0 and not isinstance(outcome, np.generic):
        outcome = outcome.item()
    try:
        # Tensors are hashed by their place in memory.
        hash([] if getattr(outcome, "ndim", 0) else outcome)
    except TypeError:
        raise ValueError(
            f"outcome_of gave {shown(outcome)}, which cannot be hashed: give a text, a number or a tuple of these"
        ) from None
    if isinstance(outcome, tuple | frozenset):
        kind = tuple if isinstance(outcome, tuple) else frozenset
        return kind(map(_read, outcome))
    # Not equal to itself is NaN; whether pandas.NA is equal to itself it refuses to say.
    try:
        return outcome if outcome == outcome else None
    except TypeError:
        return None


def numbered(outcomes: Sequence[Hashable | None]) -> np.ndarray:
    """`[B]` int32, a number for each of the different outcomes of a batch, as `==` tells them apart; -1 for none.

    Raises:
      ValueError: an outcome is not hashable.
    """
    known: dict[Hashable, int] = {}
    return np.array(
        [-1 if one is None else known.setdefault(one, len(known)) for one in map(_read, outcomes)], np.int32
    )


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
        right_above=rows.right_above,
    )
