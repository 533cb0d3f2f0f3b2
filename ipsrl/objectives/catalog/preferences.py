"""Preference losses over the pairs of a group: the winner has the higher reward; ties, up to rounding, form no pair.

A group of two is the stored pair [chosen, rejected]. An answer without tokens is in no pair, because its loss would
belong to no token.
"""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import non_negative, positive
from ipsrl.objectives.aggregation import SequenceMean
from ipsrl.objectives.estimators.divergences import Divergence, check_alpha, link
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart, Surrogate
from ipsrl.objectives.ties import rounding
from ipsrl.structures import Metrics, PolicyScores, Rollouts, masked_mean, masked_sum


def beats(rollouts: Rollouts) -> Array:
    """`[P, G, G]` bool, True at [p, w, l] where answer w has a higher reward than l, and both have tokens."""
    rewards, answered = rollouts.rewards, rollouts.answered
    ahead = rewards[:, :, None] - rewards[:, None, :] > rounding(rewards)[..., None]
    return ahead & answered[:, :, None] & answered[:, None, :]


@dataclasses.dataclass(frozen=True)
class PairWeights(RolloutPart):
    """A_w = number of answers / (groups with a pair * pairs in the group) for answers that beat another, 0 elsewhere.

    Answers without tokens do not count, as in `SequenceMean`. The mean over answers of A_w * (sum over the answers that
    w beats) is then the mean over groups of the mean over pairs; groups without a pair are left out. Pairs are formed
    from the environment's rewards.
    """

    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        pairs = beats(rollouts)
        in_group = pairs.sum(axis=(1, 2), dtype=jnp.float32)
        groups = (in_group > 0).sum()
        answers = rollouts.answered.sum()
        weight = answers / jnp.maximum(groups * in_group, 1)
        return jnp.where(pairs.any(axis=-1), weight[:, None], 0.0)


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
        log_prob = (masked_mean if self.per_token else masked_sum)(scores.log_probs, mask, axis=-1)
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
        of_answer = masked_mean if self.per_token else masked_sum
        log_ratio = of_answer(scores.log_probs - rollouts.reference_log_probs, rollouts.token_mask, axis=-1)
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


def dpo(beta: float = 0.1) -> Objective:
    """DPO (arXiv 2305.18290): loss -log sigmoid(beta (log pi/pi_ref (winner) - log pi/pi_ref (loser))) of each pair.

    Pairs are all answers of a group with different rewards; the loss is the mean over groups of the mean over pairs. A
    stored preference is a group of two. `beta` is the weight of the divergence from the reference.

    Degenerate: groups without a pair have no gradient and are left out of the mean over groups.
    Evidence: paper (the loss); all pairs of a group are our reading.
    Peers: TRL, Tunix.
    """
    return Objective(advantages=PairWeights(), surrogate=PairwiseLikelihood(beta), aggregation=SequenceMean())


def f_dpo(divergence: Divergence = "jensen_shannon", alpha: float = 0.5, beta: float = 0.1) -> Objective:
    """f-DPO (arXiv 2309.16240): loss -log sigmoid(beta f'(u_w) - beta f'(u_l)), u = pi / pi_ref of winner and loser.

    DPO for a policy regularised to the reference by another divergence; `reverse_kl` is DPO. `alpha` belongs to
    `divergence=alpha`. For forward_kl and alpha the log-ratio of an answer is clipped to [-10, 10] (our reading), and
    pairs beyond have no gradient, because f' diverges. In a table of logits the minimum is the optimum for the rewards
    of largest Bradley-Terry likelihood. Where u is large all f' but log u hardly grow, so that training gets there
    slowly (`experiments.divergences`).

    Degenerate: groups without a pair have no gradient and are left out of the mean over groups.
    Evidence: paper and code (the links); all pairs of a group are our reading.
    Peers: TRL.
    """
    if divergence != "alpha" and alpha != 0.5:
        raise ValueError(f"alpha={alpha} belongs to divergence=alpha: leave it out")
    return Objective(
        advantages=PairWeights(),
        surrogate=PairwiseLikelihood(beta, divergence, alpha),
        aggregation=SequenceMean(),
    )


RPO = {"average": {"beta": 0.5, "eta": 0.2}, "cumulative": {"beta": 0.01, "eta": 0.005}}
"""Values of the arguments of `rpo` that are None, from the authors' code (for cumulative, with zephyr-7b-beta)."""


def rpo(
    form: Literal["cumulative", "average"] = "average", beta: float | None = None, eta: float | None = None
) -> Objective:
    """RPO (arXiv 2405.16436): DPO's loss - eta * mean log pi(winner), or - eta beta * log pi(winner), of each pair.

    The second term keeps the winner's probability from falling. `average` takes the mean over its tokens, without beta;
    `cumulative` their sum, times beta, so that eta must fall with the length. Arguments that are None take the authors'
    value for the form: beta 0.5 and eta 0.2, or beta 0.01 and eta 0.005. eta = 0 is DPO.

    Degenerate: groups without a pair have no gradient and are left out of the mean over groups.
    Evidence: paper and code; all pairs of a group are our reading.
    Peers: TRL.
    """
    beta = RPO[form]["beta"] if beta is None else beta
    eta = RPO[form]["eta"] if eta is None else eta
    if not eta >= 0.0:
        raise ValueError(f"eta is {eta}, it must not be negative")
    imitation = eta * beta if form == "cumulative" else eta
    return Objective(
        advantages=PairWeights(),
        surrogate=PairwiseLikelihood(beta, imitation=imitation, per_token=form == "average"),
        aggregation=SequenceMean(),
    )


def ipo(beta: float = 0.1, per_token: bool = True) -> Objective:
    """IPO (arXiv 2310.12036): loss (log pi/pi_ref (winner) - log pi/pi_ref (loser) - 1 / (2 beta))^2 of each pair.

    Where DPO pushes the winner of a pair without end, IPO stops at a margin of 1 / (2 beta). With `per_token` an
    answer's log-ratio is the mean over its tokens, which TRL's authors had confirmed by those of the paper. The loss of
    the same name in prime-rl is another one, a policy gradient with a mask.

    Degenerate: groups without a pair have no gradient and are left out of the mean over groups.
    Evidence: paper and code (TRL); all pairs of a group are our reading.
    Peers: TRL.
    """
    return Objective(advantages=PairWeights(), surrogate=PairwiseSquare(beta, per_token), aggregation=SequenceMean())
