"""Reward shaping that subtracts a cost of the whole answer from its reward: `[P, G]` -> `[P, G]`."""

import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import at_least, non_negative, positive, share
from ipsrl.objectives.estimators.reference_divergence import (
    RewardEstimator,
    adapted_coefficient,
    mean_answer_divergence,
    token_divergence,
)
from ipsrl.objectives.objective import Metrics, RolloutPart
from ipsrl.structures import Rollouts, Sizes


def answer_divergence(rollouts: Rollouts, estimator: RewardEstimator) -> Array:
    """KL(behaviour || reference) summed over the tokens of each answer, `[P, G]` nats."""
    return token_divergence(rollouts.behaviour_log_probs, rollouts, estimator).sum(axis=-1)


@dataclasses.dataclass(frozen=True)
class DivergenceCost(RolloutPart):
    """r - coefficient * sum_t KL_t from the behaviour policy to the reference: KL in the reward, without gradient.

    It precedes the baseline, so it is centred and scaled like the rewards. The expected update of k1 is that of
    KL(policy || reference) (RLOO, arXiv 2402.14740).
    """

    coefficient: float = positive(called="the coefficient of the KL penalty")
    estimator: RewardEstimator = "k1"
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return values - self.coefficient * answer_divergence(rollouts, self.estimator)


@dataclasses.dataclass(frozen=True)
class AdaptiveDivergenceCost(DivergenceCost):
    """`DivergenceCost` whose coefficient follows a target in nats per answer (arXiv 1909.08593).

    `coefficient` is the initial one; a batch uses the coefficient adapted by the batches before it, see
    `adapted_coefficient`. The paper's gain is 0.1; lm-human-preferences and verl write it as batch size / 10,000.
    """

    target: float = positive(6.0, called="the target of the KL penalty")
    gain: float = share(0.1, called="the gain of the KL penalty")

    def init(self, sizes: Sizes) -> dict[str, Array]:
        """The coefficient, and the divergence of the previous batch, 0 before the first."""
        return {"coefficient": jnp.float32(self.coefficient), "divergence": jnp.float32(0)}

    def update_state(
        self, values: Array, rollouts: Rollouts, state: dict[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        charged = values - state["coefficient"] * answer_divergence(rollouts, self.estimator)
        divergence = mean_answer_divergence(rollouts)
        coefficient = adapted_coefficient(state["coefficient"], divergence, self.target, self.gain)
        return charged, {"coefficient": coefficient, "divergence": divergence}

    def state_metrics(self, state: dict[str, Array]) -> Metrics:
        """The coefficient of the next batch, and the divergence of this one in nats per answer."""
        one = jnp.float32(1)
        return {"reference_kl_coefficient": (state["coefficient"], one), "answer_kl": (state["divergence"], one)}


@dataclasses.dataclass(frozen=True)
class OverlongPunishment(RolloutPart):
    """Soft punishment of long answers (DAPO, arXiv 2503.14476), before the rewards are normalised.

        r - weight * max(0, excess),    excess = (length - (limit - cache)) / cache

    0 up to limit - cache tokens, then linear, -weight at the limit. Beyond the limit the paper's form stays at -weight
    and verl's continues to fall; up to the limit they are the same. Values are relative to the group's least punished
    answer, so that small rewards are not rounded away behind what all have; advantages do not depend on a constant.

    Attributes:
      weight: of the punishment; 1 in the paper, where rewards are 1 and -1.
      limit: tokens; None is the longest possible answer, T. The paper has 20480.
      cache: tokens, at most the limit (else ValueError, for limit=None on the first batch); None is a fifth of the
        limit, like the paper's 4096.
      form: `paper` or `verl`.
    """

    weight: float = non_negative(1.0, called="the weight of the overlong punishment")
    limit: int | None = at_least(1, None, called="the overlong limit, in tokens,")
    cache: int | None = at_least(1, None, called="the overlong cache, in tokens,")
    form: Literal["paper", "verl"] = "paper"

    def __post_init__(self):
        super().__post_init__()
        if self.limit is not None:
            self._check_cache(self.limit)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        limit = rollouts.token_mask.shape[-1] if self.limit is None else self.limit
        self._check_cache(limit)
        cache = limit / 5 if self.cache is None else self.cache
        excess = (rollouts.token_mask.sum(axis=-1) - (limit - cache)) / cache
        punishment = self.weight * jnp.clip(excess, 0.0, 1.0 if self.form == "paper" else None)
        return values - (punishment - punishment.min(axis=-1, keepdims=True))

    def _check_cache(self, limit: int) -> None:
        if self.cache is not None and self.cache > limit:
            raise ValueError(f"the overlong cache of {self.cache} tokens is longer than the limit of {limit}")
