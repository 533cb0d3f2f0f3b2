"""GRPO that uses token probabilities: to hold back sure answers, to damp unlikely ones, or to keep them."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar, Literal

from ipsrl.objectives.advantages.baselines import GroupMeanStd, group_centred
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, both_sides, divergence
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.penalties.low_probability import LowProbabilityRegulariser
from ipsrl.objectives.reweighting.answer_confidence import AnswerConfidence
from ipsrl.objectives.reweighting.low_probability_first import LowProbabilityFirst
from ipsrl.objectives.reweighting.token_weights import ProbabilityWeight
from ipsrl.objectives.surrogates.ratio import BoundedRatio, ClippedRatio

PromptPart = Literal["all", "lowest", "question"]


@dataclasses.dataclass(frozen=True)
class OfPrompt:
    """ARM's reference: the tokens of the prompt that measure how sure the policy is of it."""

    part: PromptPart = "all"

    NAMED: ClassVar[dict[str, Callable[..., "OfPrompt"]]] = {}


def prompt(part: PromptPart = "all") -> OfPrompt:
    """The prompt as the reference."""
    return OfPrompt(part)


OfPrompt.NAMED["prompt"] = prompt

THRESHOLD = 0.5
"""Default of Lopti: behaviour probability at and above which a token waits for the second step."""


def progrpo(
    alpha: float = 0.3,
    low_fraction: float = 0.2,
    reference: Literal["prompt", "correct", "other_prompt"] | OfPrompt = "prompt",
    shifted: Literal["all", "correct", "permuted"] = "all",
    gate: Literal["any_correct", "mixed"] = "any_correct",
    standardise: bool = True,
    clip: Clip = (0.2, 0.28),
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """ProGRPO (arXiv 2602.05281): A = GRPO's + alpha (c(prompt) - c(answer)), c mean probability of tokens.

    GRPO with ARM: answers that the policy is sure of lose, unlikely ones gain; the mean is over all tokens.
    `standardise=False` subtracts the group mean only. The arguments up to `gate` are the open choices of
    `AnswerConfidence`; `reference=correct` needs no prompt log-probabilities, and `reference=prompt(lowest)` names the
    tokens of the prompt: `all`, the `lowest` or those of the `question`. Two placebos have the same numbers in wrong
    places: `reference=other_prompt`, and `shifted=permuted` among the correct answers of a group.

    Degenerate: groups without reward get zero; groups that are all correct are shifted unless `gate="mixed"`.
    Evidence: second-hand (two reviews that quote the equations); alpha and the open choices are our reading.
    """
    part = reference.part if isinstance(reference, OfPrompt) else "all"
    compared = "prompt" if isinstance(reference, OfPrompt) else reference
    return Objective(
        advantages=group_centred(standardise),
        reweighting=(AnswerConfidence(alpha, low_fraction, compared, shifted, gate, part),),
        surrogate=ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
    )


def ar_lopti(
    alpha: float | None = None,
    lopti: bool = True,
    threshold: float = THRESHOLD,
    clip: Clip = (0.2, 0.24),
    kl: float | KL = 0.0,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """AR and Lopti (arXiv 2505.12929): A_t = (alpha mu_t + 1 - alpha) GRPO's; unlikely tokens have a step of their own.

    Advantage re-weighting damps tokens of low behaviour probability mu_t, whose gradients are the largest; Lopti splits
    each optimiser step in two, first with the tokens below `threshold`, then with the others. `alpha=None` is the
    paper's 0.3 with Lopti and 0.2 without; 0 is Lopti alone. The paper has 0.001 of the k3 divergence from a reference
    in the loss: `kl=0.001`; it acts in both steps. Both methods work against algorithms that explore by unlikely
    tokens. The mean over each answer's tokens is our reading.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code (its repository); formulas only, and the aggregation is our reading.
    """
    if threshold != THRESHOLD and not lopti:
        raise ValueError(f"threshold={threshold} belongs to lopti=True: leave it out")
    if alpha is None:
        alpha = 0.3 if lopti else 0.2
    return Objective(
        advantages=GroupMeanStd(),
        reweighting=(ProbabilityWeight(alpha),),
        surrogate=ClippedRatio(*both_sides(clip)),
        aggregation=aggregated_by(aggregation),
        penalties=divergence(kl).penalty,
        first=LowProbabilityFirst(threshold) if lopti else None,
    )


def lp_reg(
    coefficient: float = 1.0,
    kappa: float = 0.02,
    rho: float = 0.01,
    threshold: Literal["min_p", "fixed"] = "min_p",
    likeliest: int = 20,
    ratio_bound: float = 10.0,
    form: Literal["paper", "code"] = "paper",
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """Lp-Reg (arXiv 2510.03222): GRPO - KL(proxy || pi) at unlikely tokens with A < 0, proxy the likely tokens of mu.

    The proxy is the behaviour policy without its noise: tokens below `kappa` times the highest probability are removed
    (`threshold="fixed"`: below `kappa`) and the rest renormalised. A token is protected if its probability is below the
    `rho`-quantile of the batch (0.01, or 0.005 for the paper's larger model), its advantage is negative, and the proxy
    contains it. The proxy is built from the `likeliest` tokens, a number that is our reading; time and memory grow with
    it. `form="code"` is as released: only the sampled token's own probability is pulled up, by k3 and only below the
    proxy's, with k3 capped at 10; the quantile is over tokens with negative advantage; PPO's minimum stays. The
    released quantile is of the current policy in each micro-batch, ours of the behaviour policy in the batch.

    Degenerate: groups with equal rewards get exactly zero, and none of their tokens is protected.
    Evidence: paper and code (its repository), which differ; the number of most likely tokens is our reading.
    """
    regulariser = LowProbabilityRegulariser(
        coefficient, kappa=kappa, rho=rho, threshold=threshold, likeliest=likeliest, form=form
    )
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=BoundedRatio(ratio_bound) if form == "paper" else ClippedRatio(low=1.0, high=ratio_bound - 1.0),
        aggregation=aggregated_by(aggregation),
        penalties=(regulariser,),
    )
