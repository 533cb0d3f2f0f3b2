"""An objective: a published rule as a composition of six kinds of parts.

    reward shaping  ->  advantages  ->  re-weighting  |  surrogate  ->  penalties  ->  aggregation
    [P,G] -> [P,G]      [P,G]->[P,G]    [P,G,T]       |  [P,G,T]        [P,G,T]        two scalars

The left half sees rollouts only and runs once for each batch of rollouts (`Objective.weigh`); the right half sees the
policy being trained and runs once for each optimiser step (`Objective.loss`). A part is a frozen dataclass with one
pure method; its hyper-parameters are its fields, so an objective is hashable and can be a static argument of `jax.jit`.

What few parts need has a method of its own, which every other part leaves alone: state carried between batches
(`RolloutPart.update_state`, `Penalty.update_state`), parameters learned along with the policy's, and sums over a whole
mini-batch (`Surrogate.evaluate`).
"""

import abc
import dataclasses
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.fields import Checked
from ipsrl.structures import ObjectiveOutput, PolicyScores, Rollouts, Sizes, Weights, masked_sum

Metrics = dict[str, tuple[Array, Array]]


class Part(Checked):
    """Base of all parts that read rollouts. Each attribute may be a property where it depends on arguments."""

    needs: ClassVar[frozenset[str]] = frozenset()
    """Optional fields of `Rollouts` that the part reads."""
    smallest_group: ClassVar[int] = 1
    """The smallest group in which the part says anything."""
    top_tokens: ClassVar[int] = 0
    """K, how many of the likeliest tokens the part looks at (then it needs `top_log_probs`)."""

    def state_metrics(self, state: Any) -> Metrics:
        """Metrics of the state that the part hands to the next batch, for those that carry one worth watching."""
        return {}


class RolloutPart(Part):
    """Base of reward shaping, advantages and re-weighting: values of a batch of rollouts in, new values out.

    A part that carries state between batches overrides `init` and `carry`; every other part is its `__call__` alone.
    """

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        """New values: `[P, G]` for reward shaping and advantages, `[P, G, T]` for re-weighting."""
        raise TypeError(f"{type(self).__name__} carries state: call carry")

    def init(self, sizes: Sizes) -> Any:
        """State before the first batch, a pytree of arrays."""
        return ()

    def update_state(self, values: Array, rollouts: Rollouts, state: Any) -> tuple[Array, Any]:
        """New values, and the state for the next batch."""
        return self(values, rollouts), state


class Surrogate(Part):
    """Base of what is maximised in place of the return.

    A surrogate that learns parameters of its own, or needs sums over the whole mini-batch under the policy being
    trained, overrides `evaluate` and what it takes; every other surrogate is its `__call__` alone.
    """

    learning_rate: float = 0.0
    """Of Adam, which moves the surrogate's own parameters."""
    on_policy: ClassVar[bool] = False
    """Whether it takes all samples for those of the policy being trained, and has no ratio for others."""

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        """Values `[P, G, T]` to maximise (anything goes where the mask is False), and metrics."""
        raise TypeError(f"{type(self).__name__} takes parameters or statistics: call evaluate")

    def init_parameters(self, sizes: Sizes) -> Any:
        """The surrogate's own parameters before the first step, a pytree; the gradient reaches them."""
        return {}

    def statistics(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> Any:
        """A pytree of sums over a part of a mini-batch, such that parts add up; None where nothing is needed."""
        return None

    def statistics_unsplit(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> Any:
        """Statistics of an unsplit mini-batch; override where a cheaper equivalent exists."""
        return self.statistics(scores, rollouts, advantages)

    def evaluate(
        self, scores: PolicyScores, rollouts: Rollouts, advantages: Array, parameters: Any, statistics: Any
    ) -> tuple[Array, Metrics]:
        """As `__call__`, given the parameters and the statistics of the whole mini-batch (a constant)."""
        return self(scores, rollouts, advantages)


class Penalty(Part, abc.ABC):
    """Base of costs added to the loss, aggregated as the surrogate is: coefficient * cost.

    A penalty with one constant coefficient has it as a field and is its `__call__` alone; one whose coefficient depends
    on the rollouts, or on what came before, overrides `carry` (and `init`).
    """

    name: ClassVar[str]
    """What the metric of its mean coefficient is called: `name`_coefficient, over tokens."""
    coefficient: float

    @abc.abstractmethod
    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        """Costs `[P, G, T]` to minimise, without the coefficient, and metrics."""

    def init(self, sizes: Sizes) -> Any:
        """State before the first batch, a pytree of arrays."""
        return ()

    def update_state(self, rollouts: Rollouts, advantages: Array, state: Any) -> tuple[Array, Any]:
        """Coefficients `[P, G, T]`, or 1 in the place of G or T, and the state for the next batch."""
        return jnp.full((rollouts.rewards.shape[0], 1, 1), self.coefficient, jnp.float32), state


class Aggregation(Protocol):
    """How values of tokens become one number."""

    def __call__(self, values: Array, mask: Array) -> tuple[Array, Array]:
        """`(sum, count)` of values `[P, G, T]` under the mask."""
        ...


class Stages(Protocol):
    """Splits each optimiser step into several, one after the other, each with the advantages of some tokens."""

    @property
    def count(self) -> int: ...

    def __call__(self, rollouts: Rollouts, stage: Array) -> Array:
        """`[P, G, T]` bool, the tokens whose advantages the stage uses; every token belongs to one stage."""
        ...


@dataclasses.dataclass(frozen=True)
class Objective:
    """A composition of six kinds of parts; see the module's docstring and `catalog` for the published ones.

    Attributes:
      reward_shaping: applied to the rewards in order.
      advantages: baseline and scale of the shaped rewards.
      reweighting: applied in order to the advantages, broadcast over tokens.
      surrogate, penalties, aggregation: what `loss` composes.
      stages: how an optimiser step is split; None for one step with all tokens.
    """

    advantages: RolloutPart
    surrogate: Surrogate
    aggregation: Aggregation
    reward_shaping: tuple[RolloutPart, ...] = ()
    reweighting: tuple[RolloutPart, ...] = ()
    penalties: tuple[Penalty, ...] = ()
    stages: Stages | None = None

    @property
    def rollout_parts(self) -> tuple[RolloutPart, ...]:
        """The parts of the left half, in the order in which they act."""
        return (*self.reward_shaping, self.advantages, *self.reweighting)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts that read rollouts."""
        return (*self.rollout_parts, self.surrogate, *self.penalties)

    @property
    def needs(self) -> frozenset[str]:
        """The optional fields of `Rollouts` without which this objective cannot be computed."""
        return frozenset().union(*(part.needs for part in self.parts))

    @property
    def top_tokens(self) -> int:
        """K, how many of the likeliest tokens the sampler has to keep."""
        return max(part.top_tokens for part in self.parts)

    def check(self, available: frozenset[str], group_size: int, sizes: Sizes) -> None:
        """Refuses an impossible run before it starts.

        Raises:
          ValueError: a needed optional field is not among `available`, the group is too small, or state is indexed by
            what the environment does not number.
        """
        missing = sorted(self.needs - available)
        if missing:
            raise ValueError(
                f"the objective needs {', '.join(missing)}, which this environment and policy do not give; "
                f"they give {', '.join(sorted(available)) or 'no optional field'}"
            )
        smallest = max(part.smallest_group for part in self.parts)
        if group_size < smallest:
            raise ValueError(
                f"the objective compares the samples of a group: group_size is {group_size}, "
                f"it must be at least {smallest}"
            )
        jax.eval_shape(lambda: (self.init(sizes), self.init_parameters(sizes)))

    def init(self, sizes: Sizes) -> tuple:
        """What the parts carry between batches, before the first one; a tuple of empty tuples for most objectives."""
        return tuple(part.init(sizes) for part in (*self.rollout_parts, *self.penalties))

    def init_parameters(self, sizes: Sizes) -> Any:
        """The objective's own learned parameters before the first step; an empty dict for most objectives."""
        return self.surrogate.init_parameters(sizes)

    def weigh(self, rollouts: Rollouts, state: tuple) -> tuple[Weights, tuple, Metrics]:
        """The weight of every sampled token, from a whole batch of rollouts.

        Returns:
          weights without gradient, the new state, and metrics.
        """
        _check_shapes(rollouts)
        values, new_state, metrics = rollouts.rewards, [], {}
        penalty_states = state[len(self.rollout_parts) :]
        for position, part in enumerate(self.rollout_parts):
            values, part_state = part.update_state(values, rollouts, state[position])
            new_state.append(part_state)
            metrics |= part.state_metrics(part_state)
            if position == len(self.reward_shaping):
                values = jnp.broadcast_to(values[..., None], rollouts.tokens.shape)
        coefficients, mask = [], rollouts.token_mask
        for penalty, penalty_state in zip(self.penalties, penalty_states, strict=True):
            coefficient, penalty_state = penalty.update_state(rollouts, values, penalty_state)
            coefficients.append(coefficient)
            everywhere = jnp.broadcast_to(coefficient, mask.shape)
            metrics[f"{penalty.name}_coefficient"] = (masked_sum(everywhere, mask), mask.sum(dtype=jnp.float32))
            new_state.append(penalty_state)
            metrics |= penalty.state_metrics(penalty_state)
        weights = jax.lax.stop_gradient(Weights(values, tuple(coefficients)))
        silent = ~(mask & (values != 0)).any(axis=(1, 2))
        metrics["degenerate_groups"] = (silent.sum(dtype=jnp.float32), jnp.float32(silent.size))
        return weights, tuple(new_state), metrics

    def at_stage(self, weights: Weights, rollouts: Rollouts, stage: Array) -> Weights:
        """The weights of one of `num_stages` parts of an optimiser step: advantages of other tokens are 0."""
        if self.stages is None:
            return weights
        return dataclasses.replace(weights, advantages=jnp.where(self.stages(rollouts, stage), weights.advantages, 0.0))

    @property
    def num_stages(self) -> int:
        """Optimiser steps that each mini-batch is used for."""
        return 1 if self.stages is None else self.stages.count

    def statistics(self, scores: PolicyScores, rollouts: Rollouts, weights: Weights) -> Any:
        """What the surrogate sums over a mini-batch, of a part of one; parts add up. None for most objectives."""
        return jax.lax.stop_gradient(self.surrogate.statistics(scores, rollouts, weights.advantages))

    def loss(
        self,
        scores: PolicyScores,
        rollouts: Rollouts,
        weights: Weights,
        parameters: Any = None,
        statistics: Any = None,
    ) -> ObjectiveOutput:
        """The loss of a batch, or of a part of one, given the weights that `weigh` found for it.

        Args:
          scores: of the policy being trained; the gradient flows through these and through `parameters`.
          rollouts: the sampled tokens, `[P, G, T]`; any subset of the prompts that `weigh` saw.
          weights: the same subset.
          parameters: the objective's own, see `init_parameters`.
          statistics: of the whole mini-batch, see `statistics`; by default this batch is taken to be the whole.
        """
        tokenwise = {"log_probs": scores.log_probs, "entropy": scores.entropy, "advantages": weights.advantages}
        _check_shapes(rollouts, **tokenwise)
        if statistics is None:
            statistics = jax.lax.stop_gradient(self.surrogate.statistics_unsplit(scores, rollouts, weights.advantages))
        values, metrics = self.surrogate.evaluate(scores, rollouts, weights.advantages, parameters, statistics)
        for penalty, coefficient in zip(self.penalties, weights.coefficients, strict=True):
            cost, penalty_metrics = penalty(scores, rollouts)
            values = values - coefficient * cost
            metrics = metrics | penalty_metrics
        total, count = self.aggregation(values, rollouts.token_mask)
        return ObjectiveOutput(loss_sum=-total, count=count, metrics=metrics)

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, sizes: Sizes | None = None) -> ObjectiveOutput:
        """Loss of a batch on its own: both halves, with fresh state and parameters.

        Args:
          sizes: of the environment; only few objectives look at more of it than the number of prompts.
        """
        # What is indexed by prompt starts afresh; on its own, a batch numbers its prompts as it likes.
        prompts = rollouts.rewards.shape[0]
        rollouts = dataclasses.replace(rollouts, prompt_index=jnp.arange(prompts))
        sizes = dataclasses.replace(sizes or Sizes(prompts), num_prompts=prompts)
        weights, _, metrics = self.weigh(rollouts, self.init(sizes))
        output = self.loss(scores, rollouts, weights, self.init_parameters(sizes))
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
    axes = {"P": prompts, "G": group, "T": length}
    if rollouts.prompt_log_probs is not None:
        axes["L"] = rollouts.prompt_log_probs.shape[-1]
    if rollouts.top_log_probs is not None:
        axes["K"] = rollouts.top_log_probs.shape[-1]
    shapes = {name: letters for letters, names in FIELDS_BY_SHAPE.items() for name in names}
    given = {name: getattr(rollouts, name) for name in shapes} | tokenwise
    for name, array in given.items():
        letters = shapes.get(name, "PGT")
        if array is None or not axes.keys() >= set(letters):
            continue
        shape = tuple(axes[letter] for letter in letters)
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape} as tokens is {rollouts.tokens.shape}")


FIELDS_BY_SHAPE = {
    "P": ("prompt_index", "keys"),
    "PL": ("prompt_log_probs", "prompt_mask", "question_mask"),
    "PG": ("rewards", "outcome_id", "truncated", "log_backward", "off_policy"),
    "PGT": (
        "observations", "token_mask", "behaviour_log_probs", "behaviour_entropy", "step_log_backward", "next_states",
        "planning_mask", "reference_log_probs",
    ),
    "PGTK": ("top_tokens", "top_log_probs"),
}  # fmt: skip
"""Fields of `Rollouts` but `tokens`, by the letters of their axes."""
