"""REINFORCE, GRPO and related objectives of the expected return."""

from typing import Literal

from ipsrl.objectives.advantages.baselines import (
    GroupMean,
    GroupMeanBatchStd,
    GroupMeanByNonzero,
    GroupMeanStd,
    LeaveOneOut,
    LengthWeightedMean,
    NoBaseline,
)
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, Overlong, both_sides, divergence, with_clip
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.penalties.entropy_bonus import entropy_bonus
from ipsrl.objectives.reweighting.token_weights import ReturnToGo, WhitenedTokens, WithoutTruncated
from ipsrl.objectives.shaping.reward_costs import OverlongPunishment
from ipsrl.objectives.surrogates.ratio import ClippedRatio, ClippedSequenceRatio, PolicyGradient


def reinforce(aggregation: AggregationName = "sequence_sum", entropy: float = 0.0) -> Objective:
    """REINFORCE (rule V of arXiv 2601.21669): A = r, no baseline; the sum over tokens of A log pi.

    J = E[r]. On a bandit the logits flow as dz_i/dt = p_i (r_i - mean return): the more likely of two equally good
    outcomes gains while any worse outcome keeps probability (arXiv 2601.21669, Theorem 3.1).

    Degenerate: only groups without any reward get zero, because there is no baseline.
    Evidence: paper, and derived (closed form of the expected update).
    Peers: OpenRLHF.
    """
    return Objective(
        advantages=NoBaseline(),
        surrogate=PolicyGradient(),
        aggregation=aggregated_by(aggregation),
        penalties=entropy_bonus(entropy),
    )


def grpo(
    clip: Clip = 0.2,
    dual_clip: float | None = None,
    kl: float | KL = 0.0,
    entropy: float = 0.0,
    unbiased_std: bool = False,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """GRPO (arXiv 2402.03300): A = (r - group mean) / group std, clipped ratio, mean over each answer's tokens.

    The paper adds 0.04 of the k3 divergence from a reference policy to the loss: `kl=0.04`. The default is no penalty,
    so that objectives are compared without one. `kl=k3(0.04, place=reward)` instead subtracts the divergence of the
    behaviour policy, summed over the answer, from the reward, before the group is normalised; `kl=k3(0.04, target=6)`,
    in nats per answer, adapts the coefficient from batch to batch (arXiv 1909.08593), in either place. The clip range
    is not in the paper: 0.2 is that of the libraries. `dual_clip` (arXiv 1912.09729) bounds the loss where A < 0;
    verl's is 3.

    The standard deviation is the population's unless `unbiased_std`, as in verl and TRL; both add an epsilon to it, we
    add none.

    Degenerate: groups with equal rewards get exactly zero, but count in the denominator of the aggregation.
    Evidence: paper and code (verl, TRL); the clip range is second-hand.
    Peers: TRL, verl, Tunix, OpenRLHF, EasyDeL.
    """
    subtracted = divergence(kl, other_place=True, can_adapt=True)
    return Objective(
        reward_shaping=subtracted.cost,
        advantages=GroupMeanStd(unbiased=unbiased_std),
        surrogate=ClippedRatio(*both_sides(clip), dual_clip=dual_clip),
        aggregation=aggregated_by(aggregation),
        penalties=subtracted.penalty + entropy_bonus(entropy),
    )


def dr_grpo(
    clip: Clip = 0.2,
    entropy: float = 0.0,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """Dr. GRPO (arXiv 2503.20783): A = r - group mean, clipped ratio, token sums over the longest answer's length.

    Removes two biases of GRPO: the std, which inflates prompts that are nearly solved or nearly unsolved, and the
    length, by which long wrong answers are punished too little. RLOO's advantage is G / (G - 1) times this one.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: paper and code (TRL).
    Peers: TRL, verl, Tunix, OpenRLHF, EasyDeL.
    """
    return with_clip(clip, aggregation, advantages=GroupMean(), penalties=entropy_bonus(entropy))


def rloo(
    ratio: Literal["sequence", "token"] = "sequence",
    clip: Clip = 0.2,
    kl: float | KL = 0.0,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """RLOO (arXiv 2402.14740): A = r - mean reward of the others in the group; the answer is one action.

    `ratio="sequence"` clips the importance ratio of the whole answer, whose gradient is that of its summed
    log-probability (TRL); `ratio="token"` uses the advantage in PPO's token loss (verl), averaged by `aggregation`;
    with a sequence ratio it must be `sequence_mean`, because any other weighs answers by their length. The paper
    subtracts 0.03 of the summed k1 divergence from a reference from the reward, before the baseline: `kl=0.03`. The
    default is no penalty, as in GRPO. A number alone is k1 in the reward; in the loss, where k1 has zero mean gradient,
    take `kl=k2(0.03, place=loss)`.

    Degenerate: groups with equal rewards, after subtracting the divergence, get exactly zero.
    Evidence: paper and code (TRL, verl).
    Peers: TRL, verl, Tunix, OpenRLHF.
    """
    if ratio == "sequence" and aggregation != "sequence_mean":
        raise ValueError(
            f"aggregation={aggregation} would weigh answers by their length: ratio=sequence needs sequence_mean"
        )
    subtracted = divergence(kl, None, "reward", other_place=True)
    by_answer = ClippedSequenceRatio(*both_sides(clip), exponent="sum")
    return Objective(
        reward_shaping=subtracted.cost,
        advantages=LeaveOneOut(),
        surrogate=by_answer if ratio == "sequence" else ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
        penalties=subtracted.penalty,
    )


def reinforce_plus_plus(
    gamma: float = 1.0,
    clip: Clip = 0.2,
    kl: float | KL = 0.0,
    by_turn: bool = False,
    unbiased_std: bool = False,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """REINFORCE++ (arXiv 2501.03262): A = each token's return to go, whitened over all tokens of the batch.

    The reward is given at the last token, or with `by_turn` where the environment pays it (our reading); `kl` times
    the divergence from a reference is subtracted from each token's own reward, discounted by `gamma`. Groups are not
    compared: other prompts are the baseline, and long answers weigh more in it. `unbiased_std` is verl's convention;
    verl also adds 1e-8 to the variance, we add nothing. The paper's weight of the penalty is not in our sources; the
    default is none, as in GRPO. Its estimator is as for RLOO.

    Degenerate: a batch whose tokens all have the same return gets exactly zero; single groups are not checked.
    Evidence: paper and code (verl).
    Peers: verl.
    """
    subtracted = divergence(kl, None, "reward", other_place=True)
    return with_clip(
        clip,
        aggregation,
        advantages=NoBaseline(),
        reweighting=(
            ReturnToGo(gamma, subtracted.coefficient, subtracted.estimator, by_turn),
            WhitenedTokens(unbiased_std),
        ),
        penalties=subtracted.penalty,
    )


def reinforce_plus_plus_baseline(
    clip: Clip = 0.2,
    kl: float | KL = 0.0,
    unbiased_std: bool = False,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """REINFORCE++ with baseline (arXiv 2501.03262): A = r - group mean, whitened over all tokens of the batch.

    The mean of the whitening weighs answers by their length, so it need not be 0: groups with equal rewards then get
    its negative, scaled. KL, off by default, is in the loss; k2 is our reading of the paper's choice, whose weight is
    not in our sources. `unbiased_std` is as for `reinforce_plus_plus`.

    Degenerate: a batch in which every group has equal rewards gets exactly zero; one such group among others does not.
    Evidence: code (verl); KL is our reading.
    Peers: verl, OpenRLHF.
    """
    return with_clip(
        clip,
        aggregation,
        advantages=GroupMean(),
        reweighting=(WhitenedTokens(unbiased_std),),
        penalties=divergence(kl, "k2").penalty,
    )


def dapo(
    clip: Clip = (0.2, 0.28),
    dual_clip: float | None = None,
    overlong: float | Overlong = 1.0,
    overlong_filter: bool = False,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """DAPO (arXiv 2503.14476): A = GRPO's of r - overlong punishment, clip 0.2 / 0.28, mean over all tokens.

    The punishment grows from 0 at limit - cache tokens to the weight `overlong` at the limit; the group normalises it
    together with the reward. `overlong=paper(1.0, limit=20480, cache=4096)` is the paper's, where rewards are 1 and -1;
    by default the limit is the longest possible answer, and the cache a fifth of it. Beyond the limit `verl(...)`
    continues to grow. Use `overlong=0` in environments where length has another meaning, such as the distance to an
    outcome.
    `overlong_filter` gives truncated answers no advantage and removes them from the mean, over tokens or over answers.
    Dynamic sampling, by which the paper keeps only prompts with both right and wrong answers, is a batch filter of the
    loop.

    Degenerate: groups with equal rewards and equal punishments get exactly zero.
    Evidence: paper and code (verl, TRL); the signs of its rewards are second-hand.
    Peers: TRL, verl, Tunix, EasyDeL, Open-Instruct.
    """
    overlong = overlong if isinstance(overlong, Overlong) else Overlong(overlong)
    punishment = OverlongPunishment(overlong.weight, limit=overlong.limit, cache=overlong.cache, form=overlong.form)
    counted = "tokens" if aggregation == "token_mean" else "answers"
    return Objective(
        reward_shaping=(punishment,),
        advantages=GroupMeanStd(),
        reweighting=(WithoutTruncated(counted),) if overlong_filter else (),
        surrogate=ClippedRatio(*both_sides(clip), dual_clip=dual_clip),
        aggregation=aggregated_by(aggregation),
    )


def lite_ppo(
    clip: Clip = 0.2,
    unbiased_std: bool = False,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """Lite PPO (arXiv 2508.08221): A = (r - group mean) / std of the batch's rewards, clip 0.2, mean over all tokens.

    The std is that of the uncentred rewards over the whole batch, which may be sharded over devices: nearly solved
    prompts are not inflated as by the group's own std. TRL's is `unbiased_std` and adds 1e-4; we add nothing.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: paper and code (TRL).
    Peers: TRL.
    """
    return with_clip(clip, aggregation, advantages=GroupMeanBatchStd(unbiased=unbiased_std))


def opo(
    clip: Clip = 0.2,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """OPO (arXiv 2505.23585): A = r - sum(length r) / sum(length) over the group.

    The baseline of least variance, if the squared norm of an answer's gradient grows as its length; it holds the answer
    itself. The paper takes one step on each batch, where ratios are 1; clip and mean over tokens are verl's.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code (verl).
    Peers: verl.
    """
    return with_clip(clip, aggregation, advantages=LengthWeightedMean())


def gpg(aggregation: AggregationName = "token_mean") -> Objective:
    """GPG (arXiv 2504.02546): A = (r - group mean) B / (answers of the batch with r != 0), B all of them; A log pi.

    There is no importance ratio, and no standard deviation. The factor makes up for groups without signal; verl counts
    answers whose reward is 0 for it, so batches with few correct answers take larger steps. verl divides by a further
    constant, by default 1.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code (verl).
    Peers: verl.
    """
    return Objective(
        advantages=GroupMeanByNonzero(),
        surrogate=PolicyGradient(),
        aggregation=aggregated_by(aggregation),
    )
