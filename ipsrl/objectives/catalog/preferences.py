"""Preference losses over the pairs of a group, see `ipsrl.objectives.estimators.pairs`."""

from typing import Literal

from ipsrl.objectives.advantages.pair_weights import PairWeights
from ipsrl.objectives.aggregation import SequenceMean
from ipsrl.objectives.estimators.divergences import Divergence
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.surrogates.pairwise_likelihood import PairwiseLikelihood, PairwiseSquare


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
