"""Bases of the six kinds of parts of an objective; `ipsrl.objectives.objective` composes them.

Features that few parts need are separate methods with defaults: state carried between batches
(`RolloutPart.update_state`, `Penalty.update_state`), parameters learned along with the policy's, and sums over a whole
mini-batch (`Surrogate.evaluate`).
"""

import abc
from typing import Any, ClassVar, Protocol

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import Checked
from ipsrl.structures import Metrics, PolicyScores, Rollouts, Sizes


class Part(Checked):
    """Base of all parts that read rollouts. Each attribute may be a property if it depends on fields."""

    needs: ClassVar[frozenset[str]] = frozenset()
    """Optional fields of `Rollouts` that the part reads."""
    smallest_group: ClassVar[int] = 1
    """The smallest group size for which the part is defined."""
    top_tokens: ClassVar[int] = 0
    """K, how many of the most likely tokens the part reads (then it needs `top_log_probs`)."""

    def state_metrics(self, state: Any) -> Metrics:
        """Metrics of the state passed to the next batch; empty for most parts."""
        return {}


class RolloutPart(Part):
    """Base of reward shaping, advantages and re-weighting: maps values of a batch of rollouts to new values.

    A part that carries state between batches overrides `init` and `update_state`; every other part only `__call__`.
    """

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        """New values: `[P, G]` for reward shaping and advantages, `[P, G, T]` for re-weighting."""
        raise TypeError(f"{type(self).__name__} carries state: call update_state")

    def init(self, sizes: Sizes) -> Any:
        """State before the first batch, a pytree of arrays."""
        return ()

    def update_state(self, values: Array, rollouts: Rollouts, state: Any) -> tuple[Array, Any]:
        """New values, and the state for the next batch."""
        return self(values, rollouts), state


class Surrogate(Part):
    """Base of surrogates: the values that are maximised instead of the return.

    A surrogate with learned parameters of its own, or with sums over the whole mini-batch under the policy being
    trained, overrides `evaluate`, `init_parameters` and `statistics`; every other surrogate only `__call__`.
    """

    learning_rate: float = 0.0
    """Learning rate of Adam for the surrogate's own parameters."""
    on_policy: ClassVar[bool] = False
    """Whether it assumes that the policy being trained sampled all answers, and so has no importance ratio."""

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        """Values `[P, G, T]` to maximise (arbitrary where the mask is False), and metrics."""
        raise TypeError(f"{type(self).__name__} needs parameters or statistics: call evaluate")

    def init_parameters(self, sizes: Sizes) -> Any:
        """Initial parameters of the surrogate itself, a pytree; the gradient reaches them."""
        return {}

    def statistics(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> Any:
        """Sums over a part of a mini-batch, a pytree that can be added over parts; None if none are needed."""
        return None

    def evaluate(
        self, scores: PolicyScores, rollouts: Rollouts, advantages: Array, parameters: Any, statistics: Any
    ) -> tuple[Array, Metrics]:
        """Like `__call__`, given the parameters, and the statistics of the whole mini-batch: constants, or None if this
        is all of it.
        """
        return self(scores, rollouts, advantages)


class Penalty(Part, abc.ABC):
    """Base of costs added to the loss as coefficient * cost, aggregated like the surrogate.

    A penalty with one constant coefficient has it as a field and overrides only `__call__`; a penalty whose coefficient
    depends on the rollouts or on earlier batches overrides `update_state` (and `init`).
    """

    name: ClassVar[str]
    """The mean coefficient over tokens is logged as `name`_coefficient."""
    coefficient: float

    @abc.abstractmethod
    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        """Costs `[P, G, T]` to minimise, without the coefficient, and metrics."""

    def init(self, sizes: Sizes) -> Any:
        """State before the first batch, a pytree of arrays."""
        return ()

    def update_state(self, rollouts: Rollouts, advantages: Array, state: Any) -> tuple[Array, Any]:
        """Coefficients `[P, G, T]`, with size 1 allowed for G or T, and the state for the next batch."""
        return jnp.full((rollouts.rewards.shape[0], 1, 1), self.coefficient, jnp.float32), state


class Aggregation(Protocol):
    """Reduces token values to one number."""

    def __call__(self, values: Array, mask: Array) -> tuple[Array, Array]:
        """`(sum, count)` of values `[P, G, T]` under the mask."""
