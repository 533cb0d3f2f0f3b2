"""Policies regularised by an entropy or by a divergence from a reference, and rewards corrected for a noisy verifier.

Between answers with equal rewards, every optimum anchored to a reference keeps the reference's ratio, so it never lifts
an answer that the reference rarely gives; an entropy without reference, and MARA, make such answers equally likely.
"""

import dataclasses
import math
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import below_one, finite, non_negative, positive, share
from ipsrl.objectives.advantages.baselines import GroupMean, GroupMeanStd, LeaveOneOut, NoBaseline, group_centred
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.estimators.divergences import Divergence
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT
from ipsrl.objectives.objective import Metrics, Objective, Penalty, RolloutPart, rounding
from ipsrl.objectives.shaping.regularised_rewards import FilteredTarget, ReferenceDivergence, TsallisEntropy
from ipsrl.objectives.surrogates.ratio import PolicyGradient
from ipsrl.structures import PolicyScores, Rollouts, masked_sum

ALPHA = 0.5


@dataclasses.dataclass(frozen=True)
class ModeAnchor(RolloutPart):
    """MARA: gives good answers the rewards that make them equally likely at the KL-regularised optimum (arXiv
    2510.20817).

        r~_g = r_z + beta (log pi_ref(z) - log pi_ref(o_g))     where r_g >= threshold;     r_g elsewhere

    z is the answer most likely under the reference among those at or above the threshold (of several, one with the
    highest reward). Then pi_ref exp(r~ / beta) is equal for all of them. pi_ref(o) is the probability of the whole
    answer. `threshold=None` is the best reward of the group, if such answers are right (our reading).
    """

    beta: float = positive()
    threshold: float | None = finite(None)
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        log_reference = masked_sum(rollouts.reference_log_probs, rollouts.token_mask, axis=-1)
        if self.threshold is None:
            good = (values >= values.max(axis=-1, keepdims=True) - rounding(values)) & rollouts.right
        else:
            good = (
                values >= self.threshold - rounding(jnp.full_like(values[:1, :1], self.threshold))
            ) & rollouts.answered
        level = jnp.where(good, log_reference, -jnp.inf).max(axis=-1, keepdims=True)
        likeliest = good & (log_reference >= level - rounding(log_reference))
        anchor = jnp.where(likeliest, values, -jnp.inf).max(axis=-1, keepdims=True)
        return jnp.where(good, anchor + self.beta * (level - log_reference), values)


def mara(
    beta: float = 0.1,
    threshold: float | None = None,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_sum",
) -> Objective:
    """MARA (arXiv 2510.20817): r~ = r + beta log(pi_ref / pi); good answers take r, pi_ref of z, their best in pi_ref.

    z is the group's most likely answer under the reference at or above the threshold. pi and pi_ref are probabilities
    of whole answers, so length counts. The optimum, pi_ref exp(r~ / beta), is flat above the threshold; since z is
    chosen in each group, only up to the probability left below it. `threshold=None` is the group's best reward, if it
    is right. Our reading: that threshold; beta; no standard deviation, which would change beta from prompt to
    prompt; and "then the same KL-regularised update" as reverse KL in the reward. In the loss the optimum would not be
    flat: the group's mean scales rewards by (G-1)/G but not the penalty, and its gradient at a token omits the later
    tokens.

    Degenerate: no group gets zero, unless all its r~ - beta log(pi / pi_ref) are equal.
    Evidence: second-hand.
    """
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(ModeAnchor(beta, threshold), ReferenceDivergence("reverse_kl", beta)),
        advantages=GroupMean(),
    )


def mastered_groups(correct: Array, mastered_at: float) -> Array:
    """`[P]` bool, the groups whose share of correct answers, `[P, G]` bool, is at least `mastered_at`."""
    # The offset undoes rounding in products such as 0.55 * 20, whose ceiling must be 11.
    return correct.sum(axis=-1) >= math.ceil(mastered_at * correct.shape[-1] - 1e-6)


@dataclasses.dataclass(frozen=True)
class MasteredDivergence(Penalty):
    """coefficient * D_f of the policy from the reference, on mastered groups only (DPH-RL, arXiv 2509.07430).

        E_ref[ f(u) ],  u = pi / pi_ref of a token;     forward_kl: f = -log u  (the likelihood of reference samples)
                                                        jensen_shannon: f = u log u - (u + 1) log((u + 1) / 2)

    The paper averages over stored samples of the reference. Here the samples are the behaviour policy's, each token
    weighted by min(pi_ref / pi_behaviour, ratio_limit), a constant (our reading). This is exact for answers of one
    token where the limit does not act; for longer answers it omits the reference's probability of the preceding tokens.
    |log u| is clamped to 20 before exp.
    """

    name: ClassVar[str] = "mastered_divergence"
    coefficient: float = non_negative(called="eta, the weight of the divergence,")
    divergence: Literal["forward_kl", "jensen_shannon"] = "jensen_shannon"
    mastered_at: float = share(1.0, called="mastered_at, a share of correct answers,")
    ratio_limit: float = positive(5.0)
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def update_state(self, rollouts: Rollouts, advantages: Array, state: Any) -> tuple[Array, Any]:
        mastered = mastered_groups(rollouts.right, self.mastered_at)
        return jnp.where(mastered, self.coefficient, 0.0)[:, None, None], state

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        importance = jnp.where(mask, rollouts.reference_log_probs - rollouts.behaviour_log_probs, 0.0)
        importance = jnp.minimum(jnp.exp(jnp.clip(importance, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)), self.ratio_limit)
        log_ratio = jnp.where(mask, scores.log_probs - rollouts.reference_log_probs, 0.0)
        if self.divergence == "forward_kl":
            cost = -importance * log_ratio
        else:
            log_ratio = jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
            ratio = jnp.exp(log_ratio)
            cost = importance * (ratio * log_ratio - (ratio + 1.0) * jnp.log((ratio + 1.0) / 2.0))
        mastered = mastered_groups(rollouts.right, self.mastered_at)
        tokens = mask & mastered[:, None, None]
        return cost, {
            "mastered_groups": (mastered.sum(dtype=jnp.float32), jnp.float32(mastered.size)),
            "mastered_divergence": (masked_sum(cost, tokens), tokens.sum(dtype=jnp.float32)),
        }


@dataclasses.dataclass(frozen=True)
class UnmasteredOnly(RolloutPart):
    """Sets the advantages of mastered groups to zero (DPH-RL, arXiv 2509.07430)."""

    mastered_at: float = share(1.0, called="mastered_at, a share of correct answers,")

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return jnp.where(mastered_groups(rollouts.right, self.mastered_at)[:, None, None], 0.0, values)


def dph_rl(
    eta: float = 0.05,
    divergence: Literal["forward_kl", "jensen_shannon"] = "jensen_shannon",
    mastered_at: float = 1.0,
    ratio_limit: float = 5.0,
    standardise: bool = True,
    clip: Clip = (0.2, 0.28),
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """DPH-RL (arXiv 2509.07430): GRPO; where a prompt is always solved, eta D_f(pi_ref, pi) in place of its loss.

    The paper divides prompts once, by sampling before training (the released script: all of 4 answers correct), and
    takes D_f over stored samples of the reference: their likelihood (forward_kl, eta 0.01 to 0.05) or the generator of
    jensen_shannon (eta 0.05 to 0.2). Our reading is online: a group is mastered if its share of correct answers reaches
    `mastered_at`; D_f is taken over its own tokens, weighted by pi_ref / pi_behaviour up to `ratio_limit`.

    Degenerate: groups whose rewards are all equal, and mastered groups, get advantages of exactly zero.
    Evidence: code; dividing groups online and re-weighting their samples is our reading.
    """
    return with_clip(
        clip,
        aggregation,
        advantages=group_centred(standardise),
        reweighting=(UnmasteredOnly(mastered_at),),
        penalties=(MasteredDivergence(eta, divergence, mastered_at, ratio_limit),),
    )


def tsallis(
    q: float = 2.0,
    beta: float = 0.1,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_sum",
) -> Objective:
    """Tsallis entropy (after arXiv 1902.00137): r~ = r - beta q/(q-1) (p^(q-1) - 1), p of answers, A = r~ - group mean.

    p is the behaviour policy's probability of the whole answer. The mean update is (G-1)/G times the gradient of
    E[r] + beta S_q, S_q = (1 - sum p^q) / (q-1). Optimum: softmax r / beta at q = 1 (Shannon), sparsemax
    p = [r / (2 beta) - kappa]+ at q = 2, zeros for q > 1, heavy tails for q < 1. No standard deviation: it would
    change beta from prompt to prompt.

    Degenerate: no group gets zero, unless all its answers are equally good and equally likely.
    Evidence: derived.
    """
    return with_clip(clip, aggregation, reward_shaping=(TsallisEntropy(beta, q),), advantages=GroupMean())


def f_divergence(
    divergence: Divergence = "reverse_kl",
    beta: float = 0.1,
    alpha: float = ALPHA,
    clip: Clip = 0.2,
    aggregation: AggregationName = "sequence_sum",
) -> Objective:
    """f-divergence (after arXiv 2309.16240): r~ = r - beta f'(pi / pi_ref) of the whole answer, A = r~ - group mean.

    The mean update is (G-1)/G times the gradient of E[r] - beta D_f(pi || pi_ref). Optimum: p = pi_ref u with
    f'(u) = (r - lambda) / beta: pi_ref exp(r / beta) for reverse_kl, beta pi_ref / (lambda - r) for forward_kl. Only
    `divergence=alpha` takes `alpha`. No standard deviation: it would change beta from prompt to prompt.

    Degenerate: no group gets zero, unless all its answers are equally good and have moved equally from the reference.
    Evidence: derived.
    """
    if divergence != "alpha" and alpha != ALPHA:
        raise ValueError(f"alpha={alpha} belongs to divergence=alpha: leave it out")
    return with_clip(
        clip, aggregation, reward_shaping=(ReferenceDivergence(divergence, beta, alpha),), advantages=GroupMean()
    )


def alpha_dpg(alpha: float = 0.25, aggregation: AggregationName = "sequence_sum") -> Objective:
    """alpha-DPG (arXiv 2512.05962): A = (p* / mu)^(1-alpha) - mean of the others, p* = pi_ref r / Z; A log pi.

    The target is the reference without its wrong answers. A divergence from it descends: the forward KL, which covers,
    at alpha = 0, towards the reverse KL as alpha -> 1, where A becomes RLOO's of being correct. For every alpha < 1
    correct answers return to the reference's ratio, at a rate that is proportional to 1 - alpha. Z is the group's mean
    of pi_ref r / mu, as in the released script, which bounds it by 1, cuts (p* / mu)^(1-alpha) - 1 at 10 (which at its
    alpha only groups of 25 or more could reach), and divides by 1024; we do none of these. At alpha = 0 with a uniform
    reference this is IPS by exact probabilities, normalised in each group.

    Degenerate: groups without reward get exactly zero; those with equal rewards do not.
    Evidence: code (the authors'); that Z comes from the group alone is the script's choice.
    """
    return Objective(
        reward_shaping=(FilteredTarget(alpha),),
        advantages=LeaveOneOut(),
        surrogate=PolicyGradient(),
        aggregation=aggregated_by(aggregation),
    )


@dataclasses.dataclass(frozen=True)
class BackwardCorrection(RolloutPart):
    """(r - rho0) / J: its mean given the truth is the true reward (arXiv 2510.00915). Noisy if J is small.

    rho0 is the rate at which wrong answers are accepted, rho1 the rate at which correct ones are rejected; the observed
    reward has mean rho0 + J r given the true r in {0, 1}, with Youden's index J = 1 - rho0 - rho1. A baseline with the
    group's standard deviation undoes this, as it undoes `ForwardCorrection`. Rates are the same for all prompts.
    """

    false_positive_rate: float = below_one()
    false_negative_rate: float = below_one()

    def __post_init__(self):
        super().__post_init__()
        if self.false_positive_rate + self.false_negative_rate >= 1.0:
            raise ValueError(
                f"false_positive_rate {self.false_positive_rate} and false_negative_rate {self.false_negative_rate} "
                "leave no signal: their sum must be below 1"
            )

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        # Youden's J, how closely the verifier follows the truth.
        return (values - self.false_positive_rate) / (1.0 - self.false_positive_rate - self.false_negative_rate)


@dataclasses.dataclass(frozen=True)
class ForwardCorrection(RolloutPart):
    """r - 1 + rho1: rho1 for an accepted answer, rho1 - 1 for a rejected one.

    Its mean is 0 for a correct answer and -J for a wrong one, so without a baseline the mean update is J times the
    noise-free one, for every rho0.
    """

    false_negative_rate: float = below_one()

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        return values - (1.0 - self.false_negative_rate)


def backward_correction(
    false_positive_rate: float = 0.2,
    false_negative_rate: float = 0.3,
    standardise: bool = False,
    clip: Clip = 0.2,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """Backward correction (arXiv 2510.00915): r~ = (r - rho0) / (1 - rho0 - rho1), A = r~ - group mean.

    rho0 is the share of wrong answers that the verifier accepts, rho1 the share of correct answers that it rejects:
    measure them, the defaults are only an example. The mean update is that without noise. `standardise=True` is GRPO,
    whatever the rates: the negative control.

    Degenerate: groups whose rewards are all equal get exactly zero.
    Evidence: paper; that standardising undoes it is derived.
    """
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(BackwardCorrection(false_positive_rate, false_negative_rate),),
        advantages=group_centred(standardise),
    )


def forward_correction(
    false_negative_rate: float = 0.3,
    standardise: bool = False,
    clip: Clip = 0.2,
    aggregation: AggregationName = "constant_length",
) -> Objective:
    """Forward correction (arXiv 2510.00915): A = rho1 where the verifier accepts, rho1 - 1 where it rejects.

    rho1 is the share of correct answers that the verifier rejects: measure it, the default is only an example. The mean
    update is 1 - rho0 - rho1 times that without noise. There is no baseline, because the group's mean would undo the
    correction: `standardise=True`, GRPO's mean and standard deviation whatever the rate, is the negative control.

    Degenerate: no group gets zero, even if all rewards are equal; with `standardise` those get exactly zero.
    Evidence: paper; the weights, and that a baseline undoes them, are derived.
    """
    return with_clip(
        clip,
        aggregation,
        reward_shaping=(ForwardCorrection(false_negative_rate),),
        advantages=GroupMeanStd() if standardise else NoBaseline(),
    )
