"""Objectives that compare an answer with others of its stratum, or of its mode."""

from ipsrl.objectives.advantages.stratified import BestOfMode, StratifiedNorm
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, both_sides, divergence
from ipsrl.objectives.estimators.subgroups import Stratum
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.reweighting.preferred_mode import PreferredMode
from ipsrl.objectives.surrogates.ratio import ClippedRatio


def stratified_grpo(
    alpha: float = 0.8,
    stratum: Stratum = "planning",
    width: int = 1,
    standardise: bool = True,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """Stratified GRPO (arXiv 2510.06214): A = alpha norm(r in its stratum) + (1 - alpha) norm(r in its group).

    A search agent's strata are its numbers of tool calls. Here, `stratum` is the number of `planning` tokens, the
    `length` in tokens (both in bins of `width`), or the `first_token`. `standardise=False` omits both standard
    deviations. At alpha = 1 the advantages of each stratum sum to zero, so the policy, which chooses the stratum, never
    learns which one is better. alpha = 0.8 is unverified; sweep it.

    Degenerate: a stratum of one answer, or of equal rewards, has 1 - alpha of GRPO's advantages; equal groups get zero.
    Evidence: second-hand (two sources that agree); alpha, the keys and the bins are our reading.
    """
    return Objective(
        advantages=StratifiedNorm(alpha, stratum, width, standardise),
        surrogate=ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
    )


def hgpo(
    think_token: int = 0,
    delta: float = 0.2,
    alpha: float = 1.0,
    clip: Clip = 0.5,
    kl: float | KL = 0.001,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """HGPO (arXiv 2505.14631): A = norm(best of its mode), + alpha norm(its mode won) on token 1; modes: think or not.

    norm is GRPO's, (x - mean) / std of the group. An answer thinks if its first token is `think_token`; the other mode
    has a head start of `delta` in the comparison of mean rewards. The paper forces half of a group into each mode, as
    environments can. A policy that samples the modes must know both: if no answer begins with `think_token` (never with
    0, the padding of text), what remains is GRPO on being the best of the group. `kl` is the paper's 0.001, of k3.

    Degenerate: a group in one mode, or with a tie between them, has no second term (our reading); with equal rewards
    the first term is zero, and the second prefers not to think, by the head start.
    Evidence: paper; that tied answers are all the best of a mode is our reading.
    """
    return Objective(
        advantages=BestOfMode(think_token),
        reweighting=(PreferredMode(think_token, delta, alpha),),
        surrogate=ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
        penalties=divergence(kl).penalty,
    )
