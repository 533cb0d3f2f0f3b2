"""An objective: a published rule as a composition of six kinds of parts.

    reward shaping  ->  advantages  ->  re-weighting  |  surrogate  ->  penalties  ->  aggregation
    [P,G] -> [P,G]      [P,G]->[P,G]    [P,G,T]       |  [P,G,T]        [P,G,T]        two scalars

The left half sees rollouts only and runs once for each batch of rollouts (`Objective.weigh`); the right half sees the
policy being trained and runs once for each optimiser step (`Objective.loss`). A part is a frozen dataclass with one
pure method; its hyper-parameters are its fields, so an objective is hashable and can be a static argument of `jax.jit`.
"""

import dataclasses
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.structures import ObjectiveOutput, PolicyScores, Rollouts

Metrics = dict[str, tuple[Array, Array]]


class RolloutPart:
    """Base of reward shaping, advantages and re-weighting: values of a batch of rollouts in, new values out.

    A part that carries state between batches overrides `init` and `carry`; every other part is its `__call__` alone.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    """Optional fields of `Rollouts` that the part reads (a property where that depends on its arguments)."""
    smallest_group: ClassVar[int] = 1

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        """New values: `[P, G]` for reward shaping and advantages, `[P, G, T]` for re-weighting."""
        raise TypeError(f"{type(self).__name__} carries state: call carry")

    def init(self, num_prompts: int) -> Any:
        """State before the first batch, a pytree of arrays indexed by prompt."""
        return ()

    def carry(self, values: Array, rollouts: Rollouts, state: Any) -> tuple[Array, Any]:
        """New values, and the state for the next batch."""
        return self(values, rollouts), state


class Surrogate(Protocol):
    """What is maximised in place of the return."""

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        """Values `[P, G, T]` to maximise (anything goes where the mask is False), and metrics."""
        ...


class Penalty(Protocol):
    """A cost added to the loss, aggregated as the surrogate is."""

    needs: frozenset[str]

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        """Values `[P, G, T]` to minimise, coefficient included, and metrics."""
        ...


class Aggregation(Protocol):
    """How values of tokens become one number."""

    def __call__(self, values: Array, mask: Array) -> tuple[Array, Array]:
        """`(sum, count)` of values `[P, G, T]` under the mask."""
        ...


@dataclasses.dataclass(frozen=True)
class Objective:
    """A composition of six kinds of parts; see the module's docstring and `catalog.py` for the published ones.

    Attributes:
      reward_shaping: applied to the rewards in order.
      advantages: baseline and scale of the shaped rewards.
      reweighting: applied in order to the advantages, broadcast over tokens.
      surrogate, penalties, aggregation: what `loss` composes.
    """

    advantages: RolloutPart
    surrogate: Surrogate
    aggregation: Aggregation
    reward_shaping: tuple[RolloutPart, ...] = ()
    reweighting: tuple[RolloutPart, ...] = ()
    penalties: tuple[Penalty, ...] = ()

    @property
    def rollout_parts(self) -> tuple[RolloutPart, ...]:
        """The parts of the left half, in the order in which they act."""
        return (*self.reward_shaping, self.advantages, *self.reweighting)

    @property
    def needs(self) -> frozenset[str]:
        """The optional fields of `Rollouts` without which this objective cannot be computed."""
        return frozenset().union(*(part.needs for part in (*self.rollout_parts, *self.penalties)))

    def check(self, available: frozenset[str], group_size: int) -> None:
        """Refuses an impossible run before it starts.

        Raises:
          ValueError: a needed optional field is not among `available`, or the group is too small.
        """
        missing = sorted(self.needs - available)
        if missing:
            raise ValueError(
                f"the objective needs {', '.join(missing)}, which this environment and policy do not give; "
                f"they give {', '.join(sorted(available)) or 'no optional field'}"
            )
        smallest = max(part.smallest_group for part in self.rollout_parts)
        if group_size < smallest:
            raise ValueError(
                f"the objective compares the samples of a group: group_size is {group_size}, "
                f"it must be at least {smallest}"
            )

    def init(self, num_prompts: int) -> tuple:
        """What the parts carry between batches, before the first one; a tuple of empty tuples for most objectives."""
        return tuple(part.init(num_prompts) for part in self.rollout_parts)

    def weigh(self, rollouts: Rollouts, state: tuple) -> tuple[Array, tuple, Metrics]:
        """The weight of every sampled token, from a whole batch of rollouts.

        Returns:
          advantages `[P, G, T]` without gradient, the new state, and metrics.
        """
        _check_shapes(rollouts)
        values, new_state = rollouts.rewards, []
        for position, (part, part_state) in enumerate(zip(self.rollout_parts, state, strict=True)):
            if position == len(self.reward_shaping):
                degenerate = all_equal(values)
            values, part_state = part.carry(values, rollouts, part_state)
            new_state.append(part_state)
            if position == len(self.reward_shaping):
                values = jnp.broadcast_to(values[..., None], rollouts.tokens.shape)
        advantages = jax.lax.stop_gradient(values)
        metrics = {"degenerate_groups": (degenerate.sum(dtype=jnp.float32), jnp.float32(degenerate.size))}
        return advantages, tuple(new_state), metrics

    def loss(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> ObjectiveOutput:
        """The loss of a batch, or of a part of one, given the weights that `weigh` found for it.

        Args:
          scores: of the policy being trained; the gradient flows through these alone.
          rollouts: the sampled tokens, `[P, G, T]`; any subset of the prompts that `weigh` saw.
          advantages: `[P, G, T]`, the same subset.
        """
        _check_shapes(rollouts, log_probs=scores.log_probs, entropy=scores.entropy, advantages=advantages)
        values, metrics = self.surrogate(scores, rollouts, advantages)
        for penalty in self.penalties:
            cost, penalty_metrics = penalty(scores, rollouts)
            values = values - cost
            metrics = metrics | penalty_metrics
        total, count = self.aggregation(values, rollouts.token_mask)
        return ObjectiveOutput(loss_sum=-total, count=count, metrics=metrics)

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> ObjectiveOutput:
        """Loss of a batch on its own: both halves, with fresh state."""
        # Stateful parts index their state by prompt; on its own, a batch numbers its prompts as it likes.
        rollouts = dataclasses.replace(rollouts, prompt_index=jnp.arange(rollouts.rewards.shape[0]))
        advantages, _, metrics = self.weigh(rollouts, self.init(rollouts.rewards.shape[0]))
        output = self.loss(scores, rollouts, advantages)
        return dataclasses.replace(output, metrics=metrics | output.metrics)


def all_equal(rewards: Array) -> Array:
    """`[P]` bool, True for groups whose rewards `[P, G]` are all the same number, up to a few roundings of float32.

    Found by comparison, not from a small standard deviation: the mean of equal numbers may differ from them in the last
    bit, and dividing that by itself gives advantages of order one. So does dividing the gap between two scaled rewards
    that tie but for rounding, such as 0.9 / 0.6 and 0.6 / 0.4.
    """
    rounding = 8 * jnp.finfo(rewards.dtype).eps * jnp.abs(rewards).max(axis=-1)
    return rewards.max(axis=-1) - rewards.min(axis=-1) <= rounding


def _check_shapes(rollouts: Rollouts, **tokenwise: Array) -> None:
    if rollouts.tokens.ndim != 3:
        raise ValueError(f"tokens has shape {rollouts.tokens.shape}, expected [prompt, group, token]")
    prompts, group, length = rollouts.tokens.shape
    expected = {
        "prompt_index": (prompts,),
        "rewards": (prompts, group),
        "outcome_id": (prompts, group),
        "truncated": (prompts, group),
        "log_backward": (prompts, group),
        "token_mask": (prompts, group, length),
        "behaviour_log_probs": (prompts, group, length),
        "reference_log_probs": (prompts, group, length),
    }
    if rollouts.prompt_log_probs is not None:
        expected |= dict.fromkeys(
            ("prompt_log_probs", "prompt_mask", "question_mask"), (prompts, rollouts.prompt_log_probs.shape[-1])
        )
    given = {name: getattr(rollouts, name) for name in expected} | tokenwise
    for name, array in given.items():
        shape = expected.get(name, (prompts, group, length))
        if array is not None and array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape} as tokens is {rollouts.tokens.shape}")
