"""GRPO with other weights for single answers and tokens."""

from typing import Literal

from ipsrl.objectives.catalog import choices
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.reweighting import AnswerConfidence
from ipsrl.objectives.surrogates import ClippedRatio

PROMPT_PART = "all"


def progrpo(
    alpha: float = 0.3,
    low_fraction: float = 0.2,
    reference: Literal["prompt", "correct"] = "prompt",
    shifted: Literal["all", "correct"] = "all",
    gate: Literal["any_correct", "mixed"] = "any_correct",
    prompt_part: Literal["all", "lowest", "question"] = PROMPT_PART,
    standardise: bool = True,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    aggregation: choices.AggregationName = "token_mean",
) -> Objective:
    """ProGRPO (arXiv 2602.05281): A = GRPO's + alpha (c(prompt) - c(answer)), c mean probability of tokens.

    GRPO with ARM: answers that the policy is sure of lose, unlikely ones gain; the mean is over all tokens.
    `standardise=False` takes the group mean only. The arguments up to `prompt_part` are the open choices of
    `AnswerConfidence`; `reference="correct"` needs no prompt log-probabilities and has no `prompt_part`.

    Degenerate: groups without reward get zero; groups that are all correct are shifted unless `gate="mixed"`.
    Evidence: second-hand (two reviews that quote the equations); alpha and the open choices are our reading.
    """
    if prompt_part != PROMPT_PART and reference != "prompt":
        raise ValueError(f"prompt_part={prompt_part} belongs to reference=prompt: leave it out")
    return Objective(
        advantages=choices.centred(standardise),
        reweighting=(AnswerConfidence(alpha, low_fraction, reference, shifted, gate, prompt_part),),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=choices.aggregated_by(aggregation),
    )
