"""Preference losses over the pairs of a group, negated: `[P, G, T]` values to maximise.

The loss of a batch is the mean, over groups with at least one pair, of the mean over their pairs.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.fields import non_negative, positive
from ipsrl.objectives.estimators.divergences import Divergence, check_alpha, link
from ipsrl.objectives.estimators.pairs import beats
from ipsrl.objectives.objective import Metrics, Surrogate
from ipsrl.structures import PolicyScores, Rollouts, masked_sum


@dataclasses.dataclass(frozen=True)
class PairwiseLikelihood(Surrogate):
    """A_w sum_l [ log sigmoid(beta (f'(u_w) - f'(u_l))) + imitation * log pi(w) ],   u = pi / pi_ref of a whole answer.

    f' is the link of a divergence (f-DPO, arXiv 2309.16240); `reverse_kl`, with f'(u) = log u, gives DPO. The second
    term keeps the winner likely (RPO, arXiv 2405.16436), by the sum of its token log-probabilities or, with
    `per_token`, their mean. Values are placed at the winners; A is `PairWeights`. `pair_accuracy` is the share of pairs
    whose implicit rewards beta f'(u) have the same order as the rewards, `pair_margin` the mean difference of the
    implicit rewards.
    """

    beta: float = positive()
    divergence: Divergence = "reverse_kl"
    alpha: float = 0.5
    imitation: float = non_negative(0.0, called="the weight of imitation")
    per_token: bool = False
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __post_init__(self):
        super().__post_init__()
        check_alpha(self.divergence, self.alpha)

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        log_ratio = masked_sum(scores.log_probs - rollouts.reference_log_probs, mask, axis=-1)
        implicit = self.beta * link(self.divergence, log_ratio, self.alpha)
        pairs = beats(rollouts)
        margin = jnp.where(pairs, implicit[:, :, None] - implicit[:, None, :], 0.0)
        value = masked_sum(jax.nn.log_sigmoid(margin), pairs, axis=-1)
        log_prob = masked_sum(scores.log_probs, mask, axis=-1)
        if self.per_token:
            log_prob = log_prob / jnp.maximum(mask.sum(axis=-1), 1)
        value += self.imitation * pairs.sum(axis=-1) * log_prob
        return advantages * value[..., None], _metrics(margin, pairs)


@dataclasses.dataclass(frozen=True)
class PairwiseSquare(Surrogate):
    """-A_w sum_l (log u_w - log u_l - 1 / (2 beta))^2,   u = pi / pi_ref of a whole answer: IPO (arXiv 2310.12036).

    With `per_token`, log u is the mean over an answer's tokens. A and the metrics are those of `PairwiseLikelihood`,
    with implicit rewards log u.
    """

    beta: float = positive()
    per_token: bool = True
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        log_ratio = masked_sum(scores.log_probs - rollouts.reference_log_probs, mask, axis=-1)
        if self.per_token:
            log_ratio = log_ratio / jnp.maximum(mask.sum(axis=-1), 1)
        pairs = beats(rollouts)
        margin = jnp.where(pairs, log_ratio[:, :, None] - log_ratio[:, None, :], 0.0)
        value = -masked_sum((margin - 1 / (2 * self.beta)) ** 2, pairs, axis=-1)
        return advantages * value[..., None], _metrics(margin, pairs)


def _metrics(margin: Array, pairs: Array) -> Metrics:
    count = pairs.sum(dtype=jnp.float32)
    return {
        "pair_accuracy": (masked_sum((margin > 0).astype(jnp.float32), pairs), count),
        "pair_margin": (margin.sum(), count),
    }
