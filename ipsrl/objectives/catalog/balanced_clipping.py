"""GRPO whose clip limits are found anew for each mini-batch."""

import dataclasses
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import above, positive
from ipsrl.objectives.advantages import GroupMeanStd
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.estimators.importance import importance_ratio
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import Surrogate
from ipsrl.objectives.surrogates import clipped
from ipsrl.structures import Metrics, PolicyScores, Rollouts


@dataclasses.dataclass(frozen=True)
class BalancedClip(Surrogate):
    """PPO's clip with limits that give positive advantages their share of the objective (BAPO, arXiv 2510.18927).

    For each mini-batch the limits move from (low_start, high_start) along a fixed path until

        paper:     sum_{A > 0} p |A| min(rho, c_high)  >=  target * sum over all tokens, p = behaviour probability;
                   first c_high grows to high_end, then c_low to low_end
        code:      sum_{A > 0} |A| min(rho, c_high)    >=  target * sum_{A < 0} |A| max(rho, c_low);
                   first c_low grows, then c_high (the released code)

    or the path ends. Then min( rho A, clip(rho, c_low, c_high) A ) is maximised; the limits are ratios. The terms of
    the paper's sums are |min( rho A, clip(rho) A )|; they never shrink as c_low grows, so only c_high can reach the
    target, and c_low, once it moves, goes to its end (derived). The search has no gradient. A mini-batch whose
    advantages are all zero keeps the start limits.

    Sums at every limit of the path take ten times as long as GRPO. They are needed only if a mini-batch is split into
    micro-batches, over which sums are added; an unsplit one is searched by bisection.
    """

    form: Literal["paper", "code"] = "paper"
    target: float = positive(0.4)
    low_start: float = 0.6
    low_end: float = 0.9
    low_step: float = 0.02
    high_start: float = 1.2
    high_end: float = 3.0
    high_step: float = 0.05
    dual_clip: float | None = above(1, None)

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.low_start <= self.low_end < 1.0 < self.high_start <= self.high_end < math.inf:
            raise ValueError(
                f"the clip's limits move from {self.low_start} to {self.low_end} and from {self.high_start} to "
                f"{self.high_end}: they are ratios, below and above 1, and must not shrink"
            )
        if not (self.low_step > 0.0 and self.high_step > 0.0):
            raise ValueError(f"low_step is {self.low_step} and high_step is {self.high_step}: both must be positive")

    @property
    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the upper limits along the path, float32."""
        return (
            _steps(self.low_start, self.low_end, self.low_step),
            _steps(self.high_start, self.high_end, self.high_step),
        )

    @property
    def path(self) -> np.ndarray:
        """`[pairs, 2]`, indices into the lower and the upper limits."""
        lows, highs = (list(range(len(limits))) for limits in self._limits)
        if self.form == "paper":
            return np.array([(0, high) for high in highs] + [(low, highs[-1]) for low in lows[1:]])
        return np.array([(low, 0) for low in lows] + [(lows[-1], high) for high in highs[1:]])

    def statistics(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> dict[str, Array]:
        """Negative sums for each lower limit, and positive sums for each upper limit."""
        negative, positive = self._sums(scores, rollouts, advantages)
        lows, highs = self._limits
        return {"negative": jax.vmap(negative)(lows), "positive": jax.vmap(positive)(highs)}

    def searched(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Array]:
        """The limits that `found` would find in the statistics of this batch, from only a few of the sums.

        Both sums grow with their limits, so the measure falls while the lower limit moves and grows while the upper one
        does: it reaches the target at the start, or while the upper limit moves, or nowhere.
        """
        negative, positive = self._sums(scores, rollouts, advantages)
        lows, highs = map(jnp.asarray, self._limits)
        beside = lows[0 if self.form == "paper" else -1]
        negative_beside = negative(beside)
        bits = len(highs).bit_length()

        def walk(bit, passed):
            """One bisection step: `passed` upper limits do not reach the target; returns that many or more."""
            further = passed + (1 << (bits - 1 - bit))
            reached = self._reached(negative_beside, positive(highs[further - 1]))
            return jnp.where((further <= len(highs)) & ~reached, further, passed)

        passed = jax.lax.fori_loop(0, bits, walk, jnp.int32(0))
        at_end = passed == len(highs)
        low, high = jnp.where(at_end, lows[-1], beside), jnp.where(at_end, highs[-1], highs[passed])
        if self.form == "paper":
            return low, high
        at_start = self._reached(negative(lows[0]), positive(highs[0]))
        return jnp.where(at_start, lows[0], low), jnp.where(at_start, highs[0], high)

    def evaluate(
        self,
        scores: PolicyScores,
        rollouts: Rollouts,
        advantages: Array,
        parameters: Any,
        statistics: dict[str, Array] | None,
    ) -> tuple[Array, Metrics]:
        limits = self.searched(scores, rollouts, advantages) if statistics is None else self.found(statistics)
        low, high = jax.lax.stop_gradient(limits)
        ratio, mask = importance_ratio(scores, rollouts), rollouts.token_mask
        values, metrics = clipped(ratio, mask, advantages, 1.0 - low, high - 1.0, self.dual_clip)
        tokens = mask.sum(dtype=jnp.float32)
        return values, metrics | {"clip_low": (low * tokens, tokens), "clip_high": (high * tokens, tokens)}

    def found(self, statistics: dict[str, Array]) -> tuple[Array, Array]:
        """The first pair of limits on the path that reaches the target, else the last pair."""
        lows, highs = self._limits
        low_index, high_index = self.path.T
        reached = self._reached(statistics["negative"][low_index], statistics["positive"][high_index])
        first = jnp.argmax(reached.at[-1].set(True))
        return jnp.asarray(lows[low_index])[first], jnp.asarray(highs[high_index])[first]

    def _sums(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple:
        """Two functions: lower limit -> sum over negative advantages; upper limit -> sum over positive ones."""
        ratio = importance_ratio(scores, rollouts)
        weight = jnp.where(rollouts.token_mask, jnp.abs(advantages), 0.0)
        if self.form == "paper":
            weight *= jnp.exp(jnp.where(rollouts.token_mask, rollouts.behaviour_log_probs, 0.0))
        negative, positive = (jnp.where(chosen, weight, 0.0) for chosen in (advantages < 0, advantages > 0))

        def of_negative(low):
            return (negative * jnp.maximum(ratio, low)).sum()

        def of_positive(high):
            return (positive * jnp.minimum(ratio, high)).sum()

        return of_negative, of_positive

    def _reached(self, negative: Array, positive: Array) -> Array:
        """Whether the sums reach the target."""
        whole = negative + positive if self.form == "paper" else negative
        # A target met exactly must not be missed by rounding.
        return positive >= self.target * whole * (1.0 - 1e-6)


def _steps(start: float, end: float, step: float) -> np.ndarray:
    """start, start + step, ... up to end; a last step that misses the end only by rounding is included."""
    return (start + step * np.arange(math.floor((end - start) / step + 1e-6) + 1)).astype(np.float32)


BAPO: dict[str, dict[str, Any]] = {
    "paper": {
        "target": 0.4,
        "low_start": 0.6,
        "low_end": 0.9,
        "low_step": 0.02,
        "high_start": 1.2,
        "high_end": 3.0,
        "high_step": 0.05,
        "dual_clip": None,
    },
    "code": {
        "target": 1.0,
        "low_start": 0.6,
        "low_end": 0.8,
        "low_step": 0.05,
        "high_start": 1.2,
        "high_end": 2.0,
        "high_step": 0.05,
        "dual_clip": 3.0,
    },
}
"""Values of the arguments of `bapo` that are None; those of the released code are from its yaml."""


def bapo(
    form: Literal["paper", "code"] = "paper",
    target: float | None = None,
    low: tuple[float, float, float] | None = None,
    high: tuple[float, float, float] | None = None,
    dual_clip: float | None = None,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """BAPO (arXiv 2510.18927): clip(rho, c_low, c_high), limits widened until tokens with A > 0 have their share.

    Paper and released code differ in the measure (`target` is a share weighted by probability, or the unweighted
    quotient of positive to negative), in which limit moves first, in its ranges, and in the dual clip: see
    `BalancedClip`. `low` and `high` are start, end and step of a limit. Every argument that is None takes its value
    from `BAPO`; `dual_clip=1e9` switches the released dual clip off, because no ratio reaches it. The limits are
    ratios, found for each mini-batch from sums over all of it.

    Degenerate: groups with equal rewards get zero; a mini-batch of only such groups keeps the start limits.
    Evidence: paper and code (BAPO's repository); the mean over tokens is our reading.
    """
    given: dict[str, Any] = {"target": target, "dual_clip": dual_clip}
    for name, limits in (("low", low), ("high", high)):
        given |= {f"{name}_{part}": limits and limits[i] for i, part in enumerate(("start", "end", "step"))}
    released = {name: BAPO[form][name] for name, value in given.items() if value is None}
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=BalancedClip(form, **given | released),
        aggregation=aggregated_by(aggregation),
    )
