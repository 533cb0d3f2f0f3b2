"""An objective: a published algorithm as a composition of six kinds of parts.

    reward shaping  ->  advantages  ->  re-weighting  |  surrogate  ->  penalties  ->  aggregation
    [P,G] -> [P,G]      [P,G]->[P,G]    [P,G,T]       |  [P,G,T]        [P,G,T]        two scalars

The left half sees only rollouts and runs once for each batch of rollouts (`Objective.weigh`); the right half sees the
policy being trained and runs once for each micro-batch of an optimiser step (`Objective.loss`). Of a penalty the
coefficients belong to the left half, the costs to the right. A part is a frozen dataclass with one
pure method; its hyper-parameters are its fields, so an objective is hashable and can be a static argument of `jax.jit`.

An objective may also have a `Correction`: weights of the surrogate for answers that were not sampled by the trainer's
own probabilities, see `corrections`.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.arguments import MADE_BY, accepted, checked, shown
from ipsrl.checking.fields import Checked
from ipsrl.objectives.corrections import Correction
from ipsrl.objectives.parts import Aggregation, Part, Penalty, RolloutPart, Surrogate
from ipsrl.objectives.sentence import in_words
from ipsrl.structures import (
    OPTIONAL_FIELDS,
    ROLLOUT_AXES,
    Metrics,
    ObjectiveOutput,
    PolicyScores,
    Rollouts,
    Sizes,
    Weights,
    masked_sum,
)
from ipsrl.synthetic_rollouts import synthetic_rollouts, synthetic_sizes


@dataclasses.dataclass(frozen=True)
class Objective(Checked):
    """A composition of six kinds of parts; see the module's docstring and `catalog` for the published ones.

    Attributes:
      reward_shaping: applied to the rewards in order.
      advantages: baseline and scale of the shaped rewards.
      reweighting: applied in order to the advantages, broadcast over tokens.
      surrogate, penalties, aggregation: the parts that `loss` composes.
      first: (rollouts) -> `[P, G, T]` bool, the tokens whose advantages take an optimiser step of their own, before all
        others; None for one step with all tokens.
      correction: weights of the surrogate's values where sampler and trainer differ, see `corrections`; None for none.

    Raises:
      ValueError: a correction tells the sampler from the trainer, but a part reads the sampler's most likely tokens.
    """

    advantages: RolloutPart
    surrogate: Surrogate
    aggregation: Aggregation
    reward_shaping: tuple[RolloutPart, ...] = ()
    reweighting: tuple[RolloutPart, ...] = ()
    penalties: tuple[Penalty, ...] = ()
    first: Callable[[Rollouts], Array] | None = None
    correction: Correction | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.separates and self.top_tokens:
            raise ValueError(
                "the objective reads the most likely tokens of the sampler, whose probabilities in the trainer are not "
                "known: take correction=sequence_mask(...), or none"
            )

    def __str__(self) -> str:
        """The parts in their order as a sentence, see `sentence`; penalties, steps and correction behind it."""
        in_order = " -> ".join(map(in_words, (*self.rollout_parts, self.surrogate, self.aggregation)))
        first = [] if self.first is None else [f"in two steps, {in_words(self.first)}"]
        corrected = [] if self.correction is None else [f"corrected by {in_words(self.correction)}"]
        return "; ".join([in_order, *map(in_words, self.penalties), *first, *corrected])

    @property
    def separates(self) -> bool:
        """Whether the probabilities of the sampler and those of the trainer are two things."""
        return self.correction is not None and "proximal_log_probs" in self.correction.needs

    @property
    def rollout_parts(self) -> tuple[RolloutPart, ...]:
        """The parts of the left half, in the order of application."""
        return (*self.reward_shaping, self.advantages, *self.reweighting)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts that read rollouts."""
        return (*self.rollout_parts, self.surrogate, *self.penalties)

    @property
    def needs(self) -> frozenset[str]:
        """The optional fields of `Rollouts` that this objective requires."""
        of_correction = frozenset() if self.correction is None else self.correction.needs
        return of_correction.union(*(part.needs for part in self.parts))

    @property
    def top_tokens(self) -> int:
        """K, how many of the most likely tokens the sampler must keep."""
        return max(part.top_tokens for part in self.parts)

    @checked
    def check(self, available: frozenset[str], group_size: int, sizes: Sizes) -> None:
        """Raises for an impossible run before it starts.

        Raises:
          ValueError: a required field is not in `available`, the group is too small, state is indexed by states or
            outcomes that the environment does not number, or a correction has nothing to weigh.
        """
        missing = sorted(self.needs - available)
        if missing:
            plain = (
                f"{', '.join(missing)}, which this environment and policy do not provide; "
                f"they provide {', '.join(sorted(available)) or 'no optional field'}"
            )
            remedies = (OPTIONAL_FIELDS[name] for name in missing if OPTIONAL_FIELDS[name])
            raise ValueError(f"the objective needs {next(remedies, plain)}")
        self._check_group_size(group_size)
        jax.eval_shape(lambda: (self.init(sizes), self.init_parameters(sizes)))
        if self.correction is not None and not is_proportional(self.surrogate):
            raise ValueError(
                "the loss of the objective is not proportional to its advantages, so that a weight of tokens would not "
                "correct for the sampler: leave the correction out"
            )

    def _check_group_size(self, group_size: int) -> None:
        smallest = max(part.smallest_group for part in self.parts)
        if group_size < smallest:
            raise ValueError(
                f"the objective compares the samples of a group: group_size is {group_size}, "
                f"it must be at least {smallest}"
            )

    def init(self, sizes: Sizes) -> tuple:
        """The initial state of the parts, carried between batches; a tuple of empty tuples for most objectives."""
        return tuple(part.init(sizes) for part in (*self.rollout_parts, *self.penalties))

    def init_parameters(self, sizes: Sizes) -> Any:
        """The initial parameters of the objective itself; an empty dict for most objectives."""
        return self.surrogate.init_parameters(sizes)

    def weigh(self, rollouts: Rollouts, state: tuple) -> tuple[Weights, tuple, Metrics]:
        """Computes the weight of every sampled token from a whole batch of rollouts.

        Returns:
          weights without gradient, the new state, and metrics.

        Raises:
          ValueError: an array has another shape than the others, or the groups are too small.
        """
        _check_shapes(rollouts)
        self._check_group_size(rollouts.tokens.shape[1])
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

    @property
    def num_steps(self) -> int:
        """Number of optimiser steps for each mini-batch."""
        return 1 if self.first is None else 2

    def weights_of_steps(self, weights: Weights, rollouts: Rollouts) -> tuple[Weights, ...]:
        """The weights of the `num_steps` optimiser steps for a mini-batch: advantages of other tokens are 0."""
        if self.first is None:
            return (weights,)
        first = self.first(rollouts)
        return tuple(
            dataclasses.replace(weights, advantages=jnp.where(chosen, weights.advantages, 0.0))
            for chosen in (first, ~first)
        )

    def statistics(self, scores: PolicyScores, rollouts: Rollouts, weights: Weights) -> Any:
        """The surrogate's sums over a part of a mini-batch, to be added over parts. None for most objectives."""
        rollouts = self._with_denominator(rollouts)
        return jax.lax.stop_gradient(self.surrogate.statistics(scores, rollouts, weights.advantages))

    def _with_denominator(self, rollouts: Rollouts) -> Rollouts:
        """The rollouts as the loss reads them: the denominator of its ratios is `behaviour_log_probs`."""
        if not self.separates:
            return rollouts
        return dataclasses.replace(rollouts, behaviour_log_probs=rollouts.proximal_log_probs)

    def loss(
        self,
        scores: PolicyScores,
        rollouts: Rollouts,
        weights: Weights,
        parameters: Any = None,
        statistics: Any = None,
    ) -> ObjectiveOutput:
        """The loss of a batch or of a part of one, given its weights from `weigh`.

        Args:
          scores: of the policy being trained; the gradient flows through these and through `parameters`.
          rollouts: the sampled tokens, `[P, G, T]`; any subset of the prompts given to `weigh`.
          weights: for the same prompts.
          parameters: the objective's own, see `init_parameters`.
          statistics: of the whole mini-batch, see `statistics`; by default this batch is the whole mini-batch.
        """
        accepted("scores", scores, PolicyScores)
        of_tokens = ("log_probs", "entropy", "mean_log_probs")
        tokenwise = {name: getattr(scores, name) for name in of_tokens} | {"advantages": weights.advantages}
        _check_shapes(rollouts, **tokenwise)
        sampled, rollouts = rollouts, self._with_denominator(rollouts)
        values, metrics = self.surrogate.evaluate(scores, rollouts, weights.advantages, parameters, statistics)
        if self.correction is not None:
            factor, of_correction = self.correction(scores, sampled, weights.advantages)
            values, metrics = factor * values, metrics | of_correction
        for penalty, coefficient in zip(self.penalties, weights.coefficients, strict=True):
            cost, penalty_metrics = penalty(scores, rollouts)
            values = values - coefficient * cost
            metrics = metrics | penalty_metrics
        total, count = self.aggregation(values, rollouts.token_mask)
        return ObjectiveOutput(loss_sum=-total, count=count, metrics=metrics)

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, sizes: Sizes | None = None) -> ObjectiveOutput:
        """Loss of a single batch: both halves, with fresh state and parameters.

        Args:
          sizes: of the environment; most objectives use only the number of prompts.
        """
        _check_shapes(rollouts)
        if missing := [name for name in sorted(self.needs) if getattr(rollouts, name) is None]:
            raise ValueError(f"the objective reads {', '.join(missing)}, which these rollouts do not have")
        # State indexed by prompt starts afresh, so a single batch may number its prompts in any way.
        prompts = rollouts.rewards.shape[0]
        rollouts = dataclasses.replace(rollouts, prompt_index=jnp.arange(prompts))
        sizes = dataclasses.replace(sizes or Sizes(prompts), num_prompts=prompts)
        weights, _, metrics = self.weigh(rollouts, self.init(sizes))
        output = self.loss(scores, rollouts, weights, self.init_parameters(sizes))
        return dataclasses.replace(output, metrics=metrics | output.metrics)


MADE_BY[Objective] = 'objectives.make("grpo")'


@functools.cache
@jax.ensure_compile_time_eval()
def is_proportional(surrogate: Surrogate) -> bool:
    """Whether the gradient of the values by an answer's log-probabilities is proportional to its advantages.

    Then weights of answers can be put on either. Found by differentiating for random answers, advantages and factors
    from 1/2 to 3/2, so that parts need not declare it; also while a program is traced, which may ask first.
    """
    kept = max(surrogate.top_tokens, 1)
    rollouts, scores = synthetic_rollouts(0, 2, 3, length=3, binary=False, vocabulary=kept + 6, top_tokens=kept)
    scores = dataclasses.replace(scores, prompt_log_probs=rollouts.prompt_log_probs)
    parameters = surrogate.init_parameters(synthetic_sizes(2))
    advantages, factor = rollouts.behaviour_entropy - 1.0, np.linspace(0.5, 1.5, 6).reshape(2, 3, 1)

    def total(log_probs: Array, advantages: Array) -> Array:
        now = dataclasses.replace(scores, log_probs=log_probs)
        return masked_sum(surrogate.evaluate(now, rollouts, advantages, parameters, None)[0], rollouts.token_mask)

    gradient = jax.jit(jax.grad(total))
    expected = factor * gradient(scores.log_probs, advantages)
    difference = jnp.abs(gradient(scores.log_probs, factor * advantages) - expected).max()
    return bool(difference <= 1e-5 * jnp.abs(expected).max())


def _check_shapes(rollouts: Rollouts, **tokenwise: Array) -> None:
    accepted("rollouts", rollouts, Rollouts)
    for name in ROLLOUT_AXES:
        array, optional = getattr(rollouts, name), name in OPTIONAL_FIELDS
        if not hasattr(array, "shape") and not (optional and array is None):
            raise ValueError(f"{name} is {shown(array)}, it must be an array{' or None' if optional else ''}")
    if rollouts.tokens.ndim != 3:
        raise ValueError(f"tokens has shape {rollouts.tokens.shape}, expected [prompt, group, token]")
    sizes = dict(zip("PGT", rollouts.tokens.shape, strict=True))
    given = {name: getattr(rollouts, name) for name in ROLLOUT_AXES} | tokenwise
    for name, array in given.items():
        if array is None:
            continue
        axes = ROLLOUT_AXES.get(name, "PGT")
        # The first array with an axis that tokens lack gives its size.
        sizes = dict(zip(axes, array.shape, strict=False)) | sizes
        expected = tuple(sizes.get(axis, 0) for axis in axes)
        if array.shape != expected:
            raise ValueError(
                f"{name} has shape {array.shape}, expected {expected} as tokens is {rollouts.tokens.shape}"
            )
