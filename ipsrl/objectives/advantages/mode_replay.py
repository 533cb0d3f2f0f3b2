"""Advantages of groups that hold answers of earlier steps besides their own: `[P, G]` -> `[P, G]`."""

import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import non_negative
from ipsrl.objectives.objective import RolloutPart, all_equal, rounding
from ipsrl.structures import Rollouts, masked_sum


@dataclasses.dataclass(frozen=True)
class ModeReplay(RolloutPart):
    """Expected return on a group's own answers, and the same weight for each right one of earlier steps.

        own:        (r - mean) / mean of the own answers (`maxrl`), r - mean (`dr_grpo`),    times answers / own answers
        replayed:   beta / (prompts with a replayed answer * replayed answers of the prompt),    times answers

    Replayed are the answers of `Rollouts.off_policy` that are right; others from there get 0. Answers without
    tokens do not count, as in `SequenceMean`, so that a mean over all answers becomes one over own answers, and beta
    times one over prompts of the mean over the prompt's replayed answers. Own answers of equal rewards, and with
    `maxrl` those whose mean is not positive, get zero.
    """

    base: Literal["maxrl", "dr_grpo"] = "maxrl"
    beta: float = non_negative(0.1)
    needs: ClassVar[frozenset[str]] = frozenset({"off_policy"})
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        present, own = rollouts.answered, ~rollouts.off_policy
        replayed = present & ~own & rollouts.right
        mean = masked_sum(values, own, axis=-1) / jnp.maximum(own.sum(axis=-1), 1)
        # Any own answer stands for the others, so that only own rewards are compared.
        first = jnp.take_along_axis(values, own.argmax(axis=-1)[:, None], axis=-1)
        silent = all_equal(jnp.where(own, values, first))
        scale = jnp.ones_like(mean)
        if self.base == "maxrl":
            earns = mean > rounding(jnp.where(own, values, 0.0))[:, 0]
            silent, scale = silent | ~earns, jnp.where(earns, mean, 1.0)
        fresh = jnp.where(own & ~silent[:, None], (values - mean[:, None]) / scale[:, None], 0.0)
        in_bank = replayed.sum(axis=-1)
        answers = present.sum()
        fresh *= answers / jnp.maximum((present & own).sum(), 1)
        again = self.beta * answers / jnp.maximum((in_bank > 0).sum() * in_bank, 1)
        return jnp.where(replayed, again[:, None], fresh)
