"""Policies regularised by an entropy or by a divergence from a reference.

Between answers with equal rewards, every optimum anchored to a reference keeps the reference's ratio, so it never lifts
an answer that the reference rarely gives; an entropy without reference, and MARA, make such answers equally likely.

The gradient of E[r] - beta Omega(pi) is the policy gradient of the reward r - beta dOmega/dpi. The added term is
computed from the behaviour policy, so it is a constant for the gradient, and exact in the first step on each batch.

It may exceed rewards by orders of magnitude, and then float32 would round these away: so entropies and divergences are
relative to the group's answer that pays most for them, for advantages that do not depend on a constant. Answers without
tokens pay nothing.
"""

import dataclasses
import math
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from ipsrl.checking.fields import below_one, finite, non_negative, positive, share
from ipsrl.objectives.advantages import GroupMean, LeaveOneOut, group_centred
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, with_clip
from ipsrl.objectives.estimators.answered import less_largest_of_answered
from ipsrl.objectives.estimators.divergences import Divergence, check_alpha, link
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import Penalty, RolloutPart
from ipsrl.objectives.surrogates import PolicyGradient
from ipsrl.objectives.ties import rounding
from ipsrl.structures import Metrics, PolicyScores, Rollouts, masked_sum

ALPHA = 0.5


@dataclasses.dataclass(frozen=True)
class ReferenceDivergence(RolloutPart):
    """r - beta f'(u), u = behaviour / reference probability of the whole answer, f' up to a constant.

    Its mean policy gradient, with a baseline, is that of E[r] - beta D_f(pi || ref). The links f', and the bound on
    |log u| in some of them, are in `divergences`.
    """

    divergence: Divergence
    beta: float = non_negative()
    alpha: float = ALPHA
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __post_init__(self):
        super().__post_init__()
        check_alpha(self.divergence, self.alpha)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        log_ratio = rollouts.behaviour_log_probs - rollouts.reference_log_probs
        log_ratio = masked_sum(log_ratio, rollouts.token_mask, axis=-1)
        return values - self.beta * _relative(link(self.divergence, log_ratio, self.alpha), rollouts)


def _relative(costs: Array, rollouts: Rollouts) -> Array:
    """Costs `[P, G]` less the largest of the group, up to rounding: at most 0; 0 for answers without tokens."""
    return jnp.where(rollouts.answered, less_largest_of_answered(costs, rollouts), 0.0)


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


EXPONENT_LIMIT = 20.0
"""(q - 1) log p is capped at this: for q < 1 the bonus of an unlikely answer is unbounded."""


@dataclasses.dataclass(frozen=True)
class TsallisEntropy(RolloutPart):
    """r - beta q/(q-1) p^(q-1), p the behaviour policy's probability of the whole answer; q = 1: r - beta log p.

    Its mean policy gradient is that of E[r] + beta S_q, S_q = (1 - sum p^q) / (q - 1): Shannon's entropy at q = 1.
    """

    beta: float = non_negative()
    q: float = positive(2.0)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        log_probability = masked_sum(rollouts.behaviour_log_probs, rollouts.token_mask, axis=-1)
        if self.q == 1.0:
            return values - self.beta * _relative(log_probability, rollouts)
        exponent = jnp.minimum((self.q - 1.0) * log_probability, EXPONENT_LIMIT)
        return values - self.beta * _relative(self.q / (self.q - 1.0) * jnp.expm1(exponent), rollouts)


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


@dataclasses.dataclass(frozen=True)
class FilteredTarget(RolloutPart):
    """(p* / mu)^(1-alpha) of the whole answer, p* = pi_ref max(r, 0) / Z: alpha-DPG (arXiv 2512.05962).

    mu is the behaviour policy, and Z the group's mean of pi_ref max(r, 0) / mu, so that no answer gets more than
    G^(1-alpha). Its mean policy gradient is, but for the noise of Z, minus (1 - alpha) times that of an
    alpha-divergence D_f(pi || p*), which is the forward KL at alpha = 0 and tends to the reverse KL as alpha -> 1; in
    `divergences`, its alpha is 1 - alpha. Groups without reward get zero.
    """

    alpha: float = below_one(0.25)
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        log_ratio = rollouts.reference_log_probs - rollouts.behaviour_log_probs
        correct = values > 0
        log_weight = masked_sum(log_ratio, rollouts.token_mask, axis=-1) + jnp.log(jnp.where(correct, values, 1.0))
        log_total = logsumexp(log_weight, axis=-1, keepdims=True, where=correct)
        exponent = (1.0 - self.alpha) * (log_weight - log_total + jnp.log(values.shape[-1]))
        return jnp.where(correct, jnp.exp(jnp.where(correct, exponent, 0.0)), 0.0)


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
