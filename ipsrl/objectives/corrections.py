"""Corrections for answers that were sampled by other probabilities than those of the trainer: weights `[P, G, T]`.

The program that samples and the one that trains do not compute the same probabilities of the same parameters (other
kernels, other precision, other experts of a mixture), and sampling may lag behind. mu is the probability of a token in
the sampler, pi_old (`Rollouts.proximal_log_probs`) the trainer's own before its first optimiser step on the batch.
Without a correction the importance ratio is pi / mu, so that a clip takes the difference of the two programs for a step
of the policy. With `Truncated` or `Masked` it is pi / pi_old, and the surrogate of a token is multiplied by a constant
weight w, found from pi_old / mu. `SequenceMask` keeps pi / mu. Where both programs agree, every w is 1.

Penalties get no weight. Tokens of weight 0 still count in the mean, as in TRL, OpenRLHF, NeMo-RL and the weights of
verl; verl's rejection takes them out of it. Metrics: `correction_weight` is the mean of w over tokens,
`correction_fraction` the share of tokens whose ratio was truncated or masked.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import Checked, at_least, non_negative, positive
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT, log_importance_ratio
from ipsrl.structures import Metrics, PolicyScores, Rollouts, masked_sum


@dataclasses.dataclass(frozen=True)
class Correction(Checked, abc.ABC):
    """Base of corrections."""

    NAMED: ClassVar[dict[str, Callable[..., "Correction"]]] = {}
    needs: ClassVar[frozenset[str]] = frozenset({"proximal_log_probs"})
    """Optional fields of `Rollouts` that it reads. With `proximal_log_probs`, these divide the ratios of the loss."""

    @abc.abstractmethod
    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        """Constant weights `[P, G, T]` of the surrogate's values, and metrics."""


@dataclasses.dataclass(frozen=True)
class Truncated(Correction):
    """w = min(pi_old / mu, cap): truncated importance sampling, TIS (Yao and others, "Your efficient RL framework
    secretly brings you off-policy RL training", 2025, a blog).

    pi_old / mu is the ratio of each `token`, or of the `sequence`, the product over its tokens, at each of them.
    Without the cap the gradient of the second has no bias. The first leaves out the ratios of the answer's other
    tokens: it has none only in answers of one token, and may be further off than no correction, but varies less. verl's
    `rollout_is`; TRL's `token_truncate` and `sequence_truncate`.
    """

    cap: float = at_least(1, 2.0)
    level: Literal["token", "sequence"] = "token"

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = _ratio(rollouts, self.level)
        return _with_metrics(jnp.minimum(ratio, self.cap), ratio > self.cap, rollouts)


@dataclasses.dataclass(frozen=True)
class Masked(Correction):
    """w = pi_old / mu where this lies in [low, high], and 0 elsewhere: masked importance sampling, MIS (Liu, Li and
    others, "When speed kills stability", 2025, a blog); of tokens IcePop (arXiv 2510.18855), with OpenRLHF's limits.

    pi_old / mu is that of each `token`, or of the `sequence` as in `Truncated`. With `geometric` the geometric mean
    over an answer's tokens, which does not drift with their number, decides which answers stay, and their tokens weigh
    by their own ratios; its limits are near 1 (NeMo-RL recommends 0.999 and 1.002). An answer that is masked pulls
    nothing, but its reward is in its group's mean. TRL's `token_mask` and `sequence_mask`; OpenRLHF's and NeMo-RL's
    `icepop` and `seq-mask-tis`.
    """

    low: float = non_negative(0.5)
    high: float = positive(5.0)
    level: Literal["token", "sequence", "geometric"] = "token"

    def __post_init__(self):
        super().__post_init__()
        if not self.low <= 1.0 <= self.high:
            raise ValueError(
                f"ratios from {self.low} to {self.high} are kept, which must include 1: the ratio where sampler and "
                "trainer agree"
            )

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        decides = _ratio(rollouts, self.level)
        kept = (self.low <= decides) & (decides <= self.high)
        weight = _ratio(rollouts, "token") if self.level == "geometric" else decides
        return _with_metrics(jnp.where(kept, weight, 0.0), ~kept, rollouts)


@dataclasses.dataclass(frozen=True)
class SequenceMask(Correction):
    """w = 0 for tokens with A < 0 in answers whose mean of log(mu / pi) over their tokens exceeds `delta`, else 1: the
    off-policy sequence mask of DeepSeek-V3.2 (arXiv 2512.02556, Eq. 9).

    pi is the policy being trained, so that both differences count, that of the programs and that of the optimiser steps
    on the batch. Needs no `proximal_log_probs`: ratios stay pi / mu. TRL's `off_policy_mask_threshold`.
    """

    delta: float = positive()
    needs: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        log_ratio = jax.lax.stop_gradient(log_importance_ratio(scores, rollouts))
        masked = (advantages < 0) & (-_of_answers(log_ratio, rollouts, mean=True) > self.delta)
        return _with_metrics(1.0 - masked, masked, rollouts)


Correction.NAMED.update({"truncated": Truncated, "masked": Masked, "sequence_mask": SequenceMask})


def _ratio(rollouts: Rollouts, level: str) -> Array:
    """pi_old / mu of tokens, or of answers at each of their tokens, `[P, G, T]`."""
    log_ratio = jnp.where(rollouts.token_mask, rollouts.proximal_log_probs - rollouts.behaviour_log_probs, 0.0)
    if level != "token":
        log_ratio = _of_answers(log_ratio, rollouts, mean=level == "geometric")
    return jnp.exp(jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))


def _of_answers(log_ratio: Array, rollouts: Rollouts, mean: bool) -> Array:
    """Sum or mean over the tokens of each answer, at each of them."""
    mask = rollouts.token_mask
    length = jnp.maximum(mask.sum(axis=-1, keepdims=True), 1) if mean else 1
    return jnp.broadcast_to(log_ratio.sum(axis=-1, keepdims=True) / length, mask.shape)


def _with_metrics(weight: Array, changed: Array, rollouts: Rollouts) -> tuple[Array, Metrics]:
    mask = rollouts.token_mask
    sums = {"correction_weight": weight, "correction_fraction": changed.astype(jnp.float32)}
    return weight, {name: (masked_sum(values, mask), mask.sum(dtype=jnp.float32)) for name, values in sums.items()}
