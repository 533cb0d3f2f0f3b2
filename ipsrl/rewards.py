"""Rewards apart from outcomes: what an answer is worth, whatever environment it was given in.

The environment says which outcome an answer reached, and gives a reward of its own. A `Reward` replaces that one: a
table, a verifier with random or systematic errors, or a reward that is itself learned. It is an argument of training
and of the expected update alike.
"""

import abc
import dataclasses
import functools
import zlib
from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from ipsrl.checking.arguments import accepted, shown
from ipsrl.checking.fields import Range
from ipsrl.structures import Outcomes, Sizes, Trajectories, is_right

SMALLEST, LARGEST = 1e-15, 1e15
"""Size of a reward other than 0. Objectives divide by standard deviations, and float32 must hold the squares."""


ALLOWED = Range(
    f"be finite, and 0 or of a size from {SMALLEST:g} to {LARGEST:g}",
    lambda rewards: (rewards == 0) | ((np.abs(rewards) >= SMALLEST) & (np.abs(rewards) <= LARGEST)),
)
"""The range of rewards."""


class Reward(abc.ABC):
    """Base of rewards: frozen dataclasses and pytrees, whose arrays may be traced, differ between the runs of one
    program, and are part of the training state. Everything else is static: a call is compiled.
    """

    @property
    def learns(self) -> bool:
        """Whether `learned` returns another reward."""
        return False

    @property
    def reads_environment(self) -> bool:
        """Whether it is known to depend on the environment's own rewards."""
        return False

    @abc.abstractmethod
    def possible(self, trajectories: Trajectories, outcomes: Outcomes) -> tuple[Array, Array]:
        """The rewards that each answer may get, and their probabilities.

        Args:
          trajectories, outcomes: of groups of answers; `outcomes.rewards` are the environment's own.

        Returns:
          `[P, G, N]` rewards and `[P, G, N]` probabilities, which add up to 1 along the last axis; N = 1 without noise.
        """

    def __call__(self, trajectories: Trajectories, outcomes: Outcomes, key: Array) -> Array:
        """`[P, G]` float32: a sample of the `possible` rewards, independent for each answer."""
        rewards, probs = self.possible(trajectories, outcomes)
        if rewards.shape[-1] == 1:
            return rewards[..., 0]
        chosen = jax.random.categorical(key, jnp.log(probs))
        return jnp.take_along_axis(rewards, chosen[..., None], axis=-1)[..., 0]

    def right_above(self, outcomes: Outcomes) -> float:
        """Above which of its rewards an answer is right: the environment's threshold if it depends on the environment's
        rewards, else 0, because its scale is its own; unless a class says otherwise.
        """
        return outcomes.right_above if self.reads_environment else 0.0

    def check(self, sizes: Sizes) -> None:
        """Raises ValueError if this reward does not fit the environment, before the first step."""
        del sizes

    def learned(self, trajectories: Trajectories, outcomes: Outcomes) -> Self:
        """The reward after a batch of groups, for the next one: itself, unless it learns."""
        return self


def rewarded(
    reward: Reward | None, trajectories: Trajectories, outcomes: Outcomes, key: Array
) -> tuple[Outcomes, Reward | None]:
    """The outcomes with their rewards, and the reward for the next batch; the environment's own if `reward` is None.

    Raises:
      ValueError: rewards or outcomes have another shape than the groups.
    """
    groups = trajectories.truncated.shape
    _require_shape("the environment's rewards", outcomes.rewards, groups)
    _require_shape("the environment's outcomes", outcomes.outcome_id, groups)
    if reward is None:
        return outcomes, None
    rewards, following = _given(reward, trajectories, outcomes, key)
    _require_shape("the rewards", rewards, groups)
    given = {"rewards": rewards, "step_rewards": None, "reward_parts": None}
    return dataclasses.replace(outcomes, **given, right_above=reward.right_above(outcomes)), following


@jax.jit
def _given(reward: Reward, trajectories: Trajectories, outcomes: Outcomes, key: Array) -> tuple[Array, Reward]:
    return jnp.asarray(reward(trajectories, outcomes, key), jnp.float32), reward.learned(trajectories, outcomes)


def checksum(reward: Reward | None) -> int:
    """A number that two rewards share if they are the same and do not learn.

    Of a function the name decides, and of `functools.partial` what it has been given, too.
    """

    def described(value: object) -> str:
        if dataclasses.is_dataclass(value):
            fields = dataclasses.fields(value)
            inside = {field.name: described(getattr(value, field.name)) for field in fields}
            return f"{type(value).__qualname__}{inside}"
        if isinstance(value, Array | np.ndarray):
            return "" if learns else f"{value.dtype}{value.shape}{zlib.crc32(np.asarray(value).tobytes())}"
        if isinstance(value, functools.partial):
            given = (value.func, *value.args, *value.keywords, *value.keywords.values())
            return str([described(part) for part in given])
        if callable(value):
            named = value if hasattr(value, "__qualname__") else type(value)
            return f"{named.__module__}.{named.__qualname__}"
        return repr(value)

    learns = reward is not None and reward.learns
    return zlib.crc32(described(reward).encode())


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RewardTable(Reward):
    """The reward of each outcome of each prompt; 0 for an answer without a valid outcome, or with one beyond the table.

    Attributes:
      table: `[num_prompts, K]`.
    """

    table: Array

    def __post_init__(self):
        # What stands for an array inside a transformation is neither.
        if isinstance(self.table, list | tuple | np.ndarray):
            with np.errstate(over="ignore"):
                taken = accepted("the table of rewards", self.table, Array)
            # Before it has 32 bits, in which a large reward would be infinite.
            _require(f"the table of rewards must {ALLOWED.phrase}", ALLOWED.holds, np.asarray(self.table, np.float64))
            object.__setattr__(self, "table", taken)

    def check(self, sizes: Sizes) -> None:
        accepted("the table of rewards", self.table, Array)
        _require_shape("the table of rewards", self.table, (sizes.num_prompts, sizes.num_outcomes))
        _require(f"the table of rewards must {ALLOWED.phrase}", ALLOWED.holds, self.table)

    def possible(self, trajectories: Trajectories, outcomes: Outcomes) -> tuple[Array, Array]:
        ids = outcomes.outcome_id
        rewards = self.table[trajectories.prompts.index[:, None], ids]
        return _certain(jnp.where((ids >= 0) & (ids < self.table.shape[-1]), rewards, 0.0))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FormulaReward(Reward):
    """A reward without noise that is a function of the answers.

    Attributes:
      formula: (trajectories, outcomes) -> `[P, G]`, jittable.
      threshold: above which of its rewards an answer is right, 0 or more; that of the environment,
        `outcomes.right_above`, is no default, because a formula changes the scale even where it reads the environment's
        rewards.

    Raises:
      ValueError: the threshold is negative.
    """

    formula: Callable[[Trajectories, Outcomes], Array] = dataclasses.field(metadata={"static": True})
    threshold: float = dataclasses.field(default=0.0, metadata={"static": True})

    def __post_init__(self):
        accepted("formula", self.formula, Callable[[Trajectories, Outcomes], Array])
        if accepted("threshold", self.threshold, float) < 0:
            raise ValueError(f"threshold is {self.threshold}, it must not be negative: no reward is never right")

    def right_above(self, outcomes: Outcomes) -> float:
        return self.threshold

    def possible(self, trajectories: Trajectories, outcomes: Outcomes) -> tuple[Array, Array]:
        return _certain(jnp.asarray(self.formula(trajectories, outcomes), jnp.float32))


class OnTop(Reward):
    """Base of rewards on top of another one, their `verifier`; None is the environment's own."""

    verifier: Reward | None
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]

    @property
    def learns(self) -> bool:
        return self.verifier is not None and self.verifier.learns

    @property
    def reads_environment(self) -> bool:
        return self.verifier is None or self.verifier.reads_environment

    def right_above(self, outcomes: Outcomes) -> float:
        return outcomes.right_above if self.verifier is None else self.verifier.right_above(outcomes)

    def check(self, sizes: Sizes) -> None:
        verifier = accepted("verifier", self.verifier, Reward | None)
        if verifier is not None:
            verifier.check(sizes)

    def underneath(self, trajectories: Trajectories, outcomes: Outcomes) -> tuple[Array, Array]:
        """`possible` of the verifier, or the environment's own rewards, which are certain."""
        return _certain(outcomes.rewards) if self.verifier is None else self.verifier.possible(trajectories, outcomes)

    def learned(self, trajectories: Trajectories, outcomes: Outcomes) -> Self:
        if self.verifier is None or not self.verifier.learns:
            return self
        return dataclasses.replace(self, verifier=self.verifier.learned(trajectories, outcomes))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NoisyVerifier(OnTop):
    """Accepts wrong answers and rejects right ones at random: the reward is 1 if accepted, else 0 (arXiv 2510.00915).

    An answer is right by its reward without noise (`right_above`). Answers err independently, also equal ones.

    Attributes:
      false_positive_rate: probability of accepting a wrong answer; a number, or `[num_prompts]`.
      false_negative_rate: probability of rejecting a right one; a number, or `[num_prompts]`.
      verifier: the reward without noise, which may have noise of its own; None for the environment's.

    Raises:
      ValueError: a rate is known and not in 0 to 1.
    """

    false_positive_rate: Array | float = 0.0
    false_negative_rate: Array | float = 0.0
    verifier: Reward | None = None

    def __post_init__(self):
        for name in ("false_positive_rate", "false_negative_rate"):
            _require(f"{name} must lie between 0 and 1", lambda rate: (rate >= 0) & (rate <= 1), getattr(self, name))

    def check(self, sizes: Sizes) -> None:
        for name in ("false_positive_rate", "false_negative_rate"):
            if np.ndim(accepted(name, getattr(self, name), Array | float)):
                _require_shape(name, getattr(self, name), (sizes.num_prompts,))
        super().check(sizes)

    def possible(self, trajectories: Trajectories, outcomes: Outcomes) -> tuple[Array, Array]:
        rewards, probs = self.underneath(trajectories, outcomes)
        right = jnp.where(is_right(rewards, super().right_above(outcomes)), probs, 0.0).sum(axis=-1)
        index = trajectories.prompts.index
        wrongly_accepted, wrongly_rejected = (
            _of_prompts(rate, index) for rate in (self.false_positive_rate, self.false_negative_rate)
        )
        accepted = right * (1.0 - wrongly_rejected) + (1.0 - right) * wrongly_accepted
        both = jnp.broadcast_to(jnp.asarray([0.0, 1.0], rewards.dtype), (*accepted.shape, 2))
        return both, jnp.stack([1.0 - accepted, accepted], axis=-1)

    def right_above(self, outcomes: Outcomes) -> float:
        return 0.0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MatchedOutcomes(Reward):
    """A reward learned from the outcomes of an expert, by maximum-entropy inverse reinforcement learning.

        w(prompt, k) <- w(prompt, k) + rate (expert(k | prompt) - share of k in the prompt's groups)

    is gradient ascent on the log-likelihood of the expert's outcomes under p(k) proportional to exp(w(k)), with the
    policy's samples in the place of p (Ziebart et al. 2008). Answers without one of the K outcomes get 0.

    Attributes:
      expert: `[num_prompts, K]`, the expert's distribution over outcomes.
      weights: `[num_prompts, K]`, the rewards of the outcomes so far.
      rate: of learning.
    """

    expert: Array
    weights: Array
    rate: Array | float = 1.0

    @property
    def learns(self) -> bool:
        return True

    def check(self, sizes: Sizes) -> None:
        for name in ("expert", "weights"):
            _require_shape(f"{name} of matched outcomes", getattr(self, name), (sizes.num_prompts, sizes.num_outcomes))
        _require("weights of matched outcomes must be finite", np.isfinite, self.weights)
        _require("expert must hold probabilities", lambda probs: (probs >= 0) & (probs <= 1), self.expert)
        _require("the probabilities of expert must add up to 1", lambda p: abs(p.sum(axis=-1) - 1) < 1e-4, self.expert)
        _require("rate must be positive and finite", lambda rate: (rate > 0) & (rate < np.inf), self.rate)

    def possible(self, trajectories: Trajectories, outcomes: Outcomes) -> tuple[Array, Array]:
        return RewardTable(self.weights).possible(trajectories, outcomes)

    def learned(self, trajectories: Trajectories, outcomes: Outcomes) -> Self:
        index = trajectories.prompts.index
        shares = jax.nn.one_hot(outcomes.outcome_id, self.expert.shape[-1]).mean(axis=1)
        weights = self.weights.at[index].add(self.rate * (self.expert[index] - shares))
        return dataclasses.replace(self, weights=weights)


def _require_shape(what: str, array: Array, shape: tuple[int | None, ...]) -> None:
    """Raises ValueError unless an array has a shape; None stands for any size."""
    found = jnp.shape(array)
    if len(found) != len(shape) or any(size not in (None, one) for one, size in zip(found, shape, strict=True)):
        raise ValueError(f"{what} must have the shape {list(shape)}, not {list(found)}")


def _require(what: str, holds: Callable[[np.ndarray], Any], numbers: Array | np.ndarray | float) -> None:
    """Raises ValueError unless something holds for all numbers, where they are known."""
    # Inside a transformation they are tracers, or no arrays at all.
    known = isinstance(numbers, int | float | np.ndarray | Array) and not isinstance(numbers, Tracer)
    if known and not np.all(holds(np.asarray(numbers))):
        raise ValueError(f"{what}, not {shown(np.asarray(numbers).tolist())}")


def _certain(rewards: Array) -> tuple[Array, Array]:
    return rewards[..., None], jnp.ones_like(rewards)[..., None]


def _of_prompts(rate: Array | float, index: Array) -> Array:
    """A rate for each group, `[P, 1]` or `[]`."""
    rate = jnp.asarray(rate)
    return rate[index][:, None] if rate.ndim else rate
