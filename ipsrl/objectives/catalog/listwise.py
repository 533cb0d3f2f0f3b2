"""Losses that compare the likelihoods of a group's answers with what their rewards say."""

from typing import Literal

from ipsrl.objectives.advantages.baselines import group_centred
from ipsrl.objectives.aggregation import SequenceMean
from ipsrl.objectives.catalog.arguments import Clip, both_sides
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.penalties.group_matching import GroupMatching
from ipsrl.objectives.surrogates.listwise import ListwiseMatching
from ipsrl.objectives.surrogates.ratio import ClippedRatio


def dmpo(coefficient: float = 1.0, temperature: float = 0.1, standardise: bool = True, clip: Clip = 0.2) -> Objective:
    """DMPO (arXiv 2605.19461): GRPO + coefficient * sum (q - w)^2, q softmax of mean log pi, w of r / temperature.

    Both softmaxes are over the answers of the group, so that correct answers are made equally likely as strings; mass
    outside of the group is not asked about. The target counts answers, not outcomes: what is sampled twice
    is wanted twice. The gradient flows through q alone. Default values are our choice.

    Degenerate: groups with equal rewards get no advantage; their answers are still made equally likely.
    Evidence: second-hand (an audit of its equations).
    """
    return Objective(
        advantages=group_centred(standardise),
        surrogate=ClippedRatio(*both_sides(clip)),
        penalties=(GroupMatching(coefficient, temperature),),
        aggregation=SequenceMean(),
    )


def lpo(
    temperature: float = 1.0,
    divergence: Literal["forward_kl", "reverse_kl"] = "forward_kl",
    standardise: bool = True,
) -> Objective:
    """LPO (arXiv 2605.06139): loss D(w, q), w softmax of log mu + A / temperature, q of log pi, A GRPO's.

    Both softmaxes are over the answers of the group, log mu and log pi of whole answers, D a Kullback-Leibler
    divergence. The target keeps the ratio of answers with equal rewards, but the step towards it, G (w - q), is
    larger for the likelier of them, so that ties are lost, slower than by GRPO.

    Degenerate: groups with equal rewards get exactly zero, off-policy too.
    Evidence: our reading (abstract).
    """
    return Objective(
        advantages=group_centred(standardise),
        surrogate=ListwiseMatching(temperature, divergence),
        aggregation=SequenceMean(),
    )
