"""Objectives that weigh prompts by how often they are solved: all correct answers of a prompt get the same."""

from ipsrl.objectives.advantages.baselines import group_centred
from ipsrl.objectives.advantages.set_advantages import MaximumLikelihood
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.reweighting.diversity_weights import FocalWeight


def f_grpo(
    gamma: float = 1.0,
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """F-GRPO (arXiv 2602.06717): A = (1 - share of correct answers)^gamma norm(r).

    Prompts that mostly succeed weigh less, so an update that misses a rare correct answer also weighs less. All correct
    answers get the same weight. The paper's gamma is unverified: 1 is our reading.

    Degenerate: groups whose rewards are all equal, and for gamma > 0 those without a wrong answer, get exactly zero.
    Evidence: second-hand; the default of gamma is our reading.
    """
    return with_clip(clip, aggregation, advantages=group_centred(standardise), reweighting=(FocalWeight(gamma),))


def maxrl(
    centred: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """MaxRL (arXiv 2602.02710): A = (r - group mean) / group mean.

    With rewards 0 and 1 and success probability p, the mean update is w grad p, which tends to the gradient of log p: w
    = (1 - (1-p)^(G-1)) / p. `centred=False` omits the -1, so that only correct answers are learned from: w = (1 -
    (1-p)^G) / p, the weight of a single correct outcome under IPS with counts.

    Degenerate: groups whose mean is not positive, or (centred) whose rewards are all equal, get exactly zero.
    Evidence: second-hand; the weights w are derived.
    Peers: SkyRL, prime-rl.
    """
    return with_clip(clip, aggregation, advantages=MaximumLikelihood(centred))


def garl(
    q: float = 0.75,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """GARL (arXiv 2604.25907): A = (r - group mean) / (group mean)^q.

    One knob between Dr. GRPO (q = 0) and MaxRL (q = 1): the loss family J_Q amplifies the gradient of a prompt by P^-q,
    P its success probability, so that prompts which are hardly ever solved are learned sooner; 0.75 is the paper's q
    from a cold start. Our reading: P is the group's mean, and so is the baseline. With rewards 0 and 1 the mean update
    is grad p times E[(1 - (c+1)/G) ((c+1)/G)^-q + (c/G)^(1-q)], c of the G - 1 other answers correct: about p^-q,
    but (G-1)/G G^q where p is far below 1/G. All correct answers of a prompt get the same: ties are lost as before.

    Degenerate: groups whose mean is not positive, or whose rewards are all equal, get exactly zero.
    Evidence: second-hand (the abstract); the baseline is our reading, the factor is derived.
    """
    return with_clip(clip, aggregation, advantages=MaximumLikelihood(q=q))
