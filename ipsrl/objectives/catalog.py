"""Every published objective as a composition: one function each, which reads like the paper's own summary.

`make("ips_grpo(alpha=0.5, floor=0.2)")` builds one from text, `names()` lists them, `describe(name)` explains one.
A new objective is a new function here and a new row in `CATALOG`.
"""

import inspect
from collections.abc import Callable
from typing import Literal

from ipsrl import specifications
from ipsrl.objectives.advantages import GroupMean, GroupMeanStd, NoBaseline
from ipsrl.objectives.aggregation import SequenceMean, SequenceSum, TokenMean
from ipsrl.objectives.objective import Aggregation, Objective, RolloutPart
from ipsrl.objectives.penalties import EntropyBonus, KullbackLeibler
from ipsrl.objectives.reward_shaping import InverseFrequency, InverseProbability
from ipsrl.objectives.reweighting import AnswerConfidence
from ipsrl.objectives.surrogates import ClippedRatio, PolicyGradient

AggregationName = Literal["sequence_mean", "token_mean", "sequence_sum", "constant_length"]
Estimator = Literal["k2", "k3"]
Probability = Literal["counts", "exact"]

# Defaults of what only `probability="exact"` uses (our reading of the sources).
DECAY = 0.99
LOG_RATIO_CAP = 20.0
ADVANTAGE_CAP = 10.0


def reinforce(aggregation: AggregationName = "sequence_sum", entropy: float = 0.0) -> Objective:
    """Expected return, no baseline: r grad log pi (REINFORCE; rule V with alpha = 0).

    J = E[r]. On a bandit the logits flow as dz_i/dt = p_i (r_i - mean return): the likelier of two equally good
    outcomes gains as long as anything worse keeps mass (arXiv 2601.21669, Theorem 3.1).
    """
    return Objective(
        advantages=NoBaseline(),
        surrogate=PolicyGradient(),
        aggregation=_aggregation(aggregation),
        penalties=_entropy(entropy),
    )


def grpo(
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl: float = 0.0,
    kl_estimator: Estimator = "k3",
    entropy: float = 0.0,
    unbiased_std: bool = False,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """GRPO (arXiv 2402.03300): A = (r - group mean) / group std, clipped ratio, mean over each answer's tokens.

    The paper adds 0.04 of the k3 divergence to a reference policy: `kl=0.04`. The default is no penalty, so that
    objectives are compared without one. The standard deviation is the population's unless `unbiased_std`.
    """
    return Objective(
        advantages=GroupMeanStd(unbiased=unbiased_std),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=_aggregation(aggregation),
        penalties=_divergence(kl, kl_estimator) + _entropy(entropy),
    )


def dr_grpo(
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    entropy: float = 0.0,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """Dr. GRPO (arXiv 2503.20783): A = r - group mean, clipped ratio, token sums over the longest answer's length."""
    return Objective(
        advantages=GroupMean(),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=_aggregation(aggregation),
        penalties=_entropy(entropy),
    )


def ips_reinforce(
    alpha: float = 1.0,
    floor: float = 0.0,
    probability: Probability = "counts",
    decay: float = DECAY,
    log_ratio_cap: float = LOG_RATIO_CAP,
    advantage_cap: float = ADVANTAGE_CAP,
    aggregation: AggregationName = "sequence_sum",
) -> Objective:
    """IPS without a baseline: (r / p^alpha) grad log pi (arXiv 2601.21669, Theorem 4.1; rule V).

    The ideal flow (dz_i/dt = r_i - p_i sum(r) at alpha = 1) ends at p proportional to r^(1/alpha). `probability` says
    what p is: `counts`, the outcome's frequency in the group, not below `floor`; `exact`, the policy's own trajectory
    probability over the environment's backward probability.

    `exact` alone uses `decay`, of the running mean that the scaled rewards are divided by, `log_ratio_cap`, on the
    logarithm of that quotient, and `advantage_cap`, on |A| (our reading).
    """
    shaping, limit = _inverse(alpha, floor, probability, decay, log_ratio_cap, advantage_cap)
    return Objective(
        reward_shaping=(shaping,),
        advantages=NoBaseline(limit=limit),
        surrogate=PolicyGradient(),
        aggregation=_aggregation(aggregation),
    )


def ips_grpo(
    alpha: float = 1.0,
    floor: float = 0.0,
    probability: Probability = "counts",
    decay: float = DECAY,
    log_ratio_cap: float = LOG_RATIO_CAP,
    advantage_cap: float = ADVANTAGE_CAP,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl: float = 0.0,
    kl_estimator: Estimator = "k3",
    entropy: float = 0.0,
    unbiased_std: bool = False,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """IPS-GRPO (arXiv 2601.21669, Algorithm 1): rewards over the outcome's probability, then GRPO as it stands.

    r~ = r / max(phat, floor)^alpha, A = (r~ - group mean) / group std. The paper's headline is floor 0.2 at group
    size 16; a floor up to 1/G does nothing. `probability="exact"` and what belongs to it: see `ips_reinforce`;
    the std takes any common scale out, so that `decay` acts only where `log_ratio_cap` does.
    """
    shaping, limit = _inverse(alpha, floor, probability, decay, log_ratio_cap, advantage_cap)
    return Objective(
        reward_shaping=(shaping,),
        advantages=GroupMeanStd(unbiased=unbiased_std, limit=limit),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=_aggregation(aggregation),
        penalties=_divergence(kl, kl_estimator) + _entropy(entropy),
    )


def ips_dr_grpo(
    alpha: float = 1.0,
    floor: float = 0.0,
    probability: Probability = "counts",
    decay: float = DECAY,
    log_ratio_cap: float = LOG_RATIO_CAP,
    advantage_cap: float = ADVANTAGE_CAP,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    entropy: float = 0.0,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """IPS with the group's mean as baseline and no std: Dr. GRPO on r / p^alpha (after arXiv 2601.21669; rule B).

    At alpha = 1 its mean field with group size G is that of rule V with G - 1: the baseline costs one sample.
    `probability="exact"` and what belongs to it: see `ips_reinforce`.
    """
    shaping, limit = _inverse(alpha, floor, probability, decay, log_ratio_cap, advantage_cap)
    return Objective(
        reward_shaping=(shaping,),
        advantages=GroupMean(limit=limit),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=_aggregation(aggregation),
        penalties=_entropy(entropy),
    )


def progrpo(
    alpha: float = 0.3,
    low_fraction: float = 0.2,
    reference: Literal["prompt", "correct"] = "prompt",
    shifted: Literal["all", "correct"] = "all",
    gate: Literal["any_correct", "mixed"] = "any_correct",
    prompt_part: Literal["all", "lowest", "question"] = "all",
    standardise: bool = True,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """ProGRPO (arXiv 2602.05281): GRPO with ARM, advantages shifted by alpha (prompt confidence - answer confidence).

    Clip-higher 0.2 / 0.28 and token mean. `standardise=False` takes the group mean only. The arguments up to
    `prompt_part` are the open choices of `AnswerConfidence`; `reference="correct"` needs no prompt log-probabilities.
    """
    return Objective(
        advantages=GroupMeanStd() if standardise else GroupMean(),
        reweighting=(AnswerConfidence(alpha, low_fraction, reference, shifted, gate, prompt_part),),
        surrogate=ClippedRatio(clip_low, clip_high),
        aggregation=_aggregation(aggregation),
    )


CATALOG: dict[str, Callable[..., Objective]] = {
    "reinforce": reinforce,
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "ips_reinforce": ips_reinforce,
    "ips_grpo": ips_grpo,
    "ips_dr_grpo": ips_dr_grpo,
    "progrpo": progrpo,
}


def make(text: str) -> Objective:
    """The objective that a text such as `"ips_grpo(alpha=0.5, floor=0.2)"` names.

    Raises:
      ValueError: unknown name or argument (the message lists the known ones), or a value of the wrong type.
    """
    return specifications.build(text, CATALOG, "objective")


def names() -> tuple[str, ...]:
    """Names of all objectives, in the catalog's order."""
    return tuple(CATALOG)


def describe(name: str) -> str:
    """Arguments with defaults, formula and paper of one objective."""
    if name not in CATALOG:
        raise ValueError(f"unknown objective {name!r}; known: {', '.join(CATALOG)}")
    parameters = inspect.signature(CATALOG[name]).parameters.values()
    arguments = ", ".join(f"{parameter.name}={parameter.default}" for parameter in parameters)
    return f"{name}({arguments})\n\n{inspect.getdoc(CATALOG[name])}"


def _aggregation(name: AggregationName) -> Aggregation:
    return {
        "sequence_mean": SequenceMean(),
        "token_mean": TokenMean(),
        "sequence_sum": SequenceSum(),
        "constant_length": SequenceSum(length=None),
    }[name]


def _inverse(
    alpha: float,
    floor: float,
    probability: Probability,
    decay: float,
    log_ratio_cap: float,
    advantage_cap: float,
) -> tuple[RolloutPart, float | None]:
    """The part that scales rewards, and the cap on |A| that goes with it."""
    if probability == "counts":
        if (decay, log_ratio_cap, advantage_cap) != (DECAY, LOG_RATIO_CAP, ADVANTAGE_CAP):
            raise ValueError("decay, log_ratio_cap and advantage_cap belong to probability=exact: leave them out")
        return InverseFrequency(alpha, floor), None
    if floor != 0.0:
        raise ValueError(f"floor={floor} bounds a frequency; probability=exact has caps of its own: leave floor out")
    return InverseProbability(alpha, decay, log_ratio_cap), advantage_cap


def _divergence(coefficient: float, estimator: Estimator) -> tuple:
    return (KullbackLeibler(coefficient, estimator),) if coefficient else ()


def _entropy(coefficient: float) -> tuple:
    return (EntropyBonus(coefficient),) if coefficient else ()
