"""GRPO with other limits on how far a batch may move the policy: ratios of whole answers, a soft gate, a square."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking import fields
from ipsrl.objectives.advantages import GroupMean, GroupMeanStd
from ipsrl.objectives.aggregation import AggregationName, SequenceMean, SequenceSum, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, both_sides, divergence
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT, importance_ratio, log_importance_ratio
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart, Surrogate
from ipsrl.objectives.surrogates import ClippedSequenceRatio, clipped, ratio_metrics
from ipsrl.objectives.ties import all_equal
from ipsrl.structures import Metrics, PolicyScores, Rollouts, Sizes, masked_mean, masked_sum


def gspo(
    clip: Clip = (3e-4, 4e-4),
    kl: float | KL = 0.0,
) -> Objective:
    """GSPO (arXiv 2507.18071): A = GRPO's; min(s A, clip(s) A), s the geometric mean of the rho of an answer's tokens.

    The clip is about a thousand times tighter than PPO's, because s varies much less: 0.2 would never act. The mean is
    over answers, each with one value. The first step on a batch, where s = 1, is GRPO's. The paper has no KL; `kl` adds
    one. verl clamps log s at 10, we at 20, like all log-ratios.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: paper and code (verl, TRL).
    Peers: TRL, verl, Tunix, OpenRLHF.
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=ClippedSequenceRatio(*both_sides(clip)),
        aggregation=SequenceMean(),
        penalties=divergence(kl).penalty,
    )


def gspo_token(
    clip: Clip = (3e-4, 4e-4),
    kl: float | KL = 0.0,
) -> Objective:
    """GSPO-token (arXiv 2507.18071): as GSPO, with s_t = sg(s) pi / sg(pi) at each token.

    With one advantage for each answer, as GRPO gives, values and gradients are GSPO's; they differ if tokens have
    advantages of their own. The paper has no KL; `kl` adds one.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: paper and code (verl, TRL).
    Peers: TRL, Tunix.
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=ClippedSequenceRatio(*both_sides(clip), per_token=True),
        aggregation=SequenceMean(),
        penalties=divergence(kl).penalty,
    )


def luspo(clip: Clip = (2e-3, 2.5e-3)) -> Objective:
    """LUSPO (arXiv 2602.05261): GSPO's value of each answer times its number of tokens; A = GRPO's.

    min(s A, clip(s) A) of GSPO has at every token 1 / length of the gradient, so that long answers move their tokens
    less; here the lengths cancel, and the first step on a batch is GRPO's with token sums in the place of means.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code (TRL, which has the clip from the paper's Section 5.1).
    Peers: TRL.
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=ClippedSequenceRatio(*both_sides(clip)),
        aggregation=SequenceSum(),
    )


@dataclasses.dataclass(frozen=True)
class SoftGate(Surrogate):
    """f(rho) A, f(rho) = (4 / tau) sigmoid(tau (rho - 1)): SAPO (arXiv 2511.20347), a smooth clip.

    tau is `positive` where A > 0 and `negative` elsewhere. The gradient by log pi is 4 sigmoid (1 - sigmoid) rho A:
    that of `PolicyGradient` at rho = 1, decreasing on both sides, faster for larger tau.
    """

    positive: float = fields.positive(1.0, called="the temperature of positive advantages")
    negative: float = fields.positive(1.05, called="the temperature of negative advantages")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = importance_ratio(scores, rollouts)
        temperature = jnp.where(advantages > 0, self.positive, self.negative)
        gate = 4.0 / temperature * jax.nn.sigmoid(temperature * (ratio - 1.0))
        return gate * advantages, ratio_metrics(ratio, rollouts.token_mask)


def sapo(
    temperature_positive: float = 1.0,
    temperature_negative: float = 1.05,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """SAPO (arXiv 2511.20347): A = GRPO's; f(rho) A, f(rho) = (4 / tau) sigmoid(tau (rho - 1)), in place of the clip.

    tau is `temperature_positive` where A > 0 and `temperature_negative` elsewhere: tokens far from the behaviour policy
    fade instead of being clipped, those with negative advantages sooner.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code (TRL).
    Peers: TRL, verl.
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=SoftGate(positive=temperature_positive, negative=temperature_negative),
        aggregation=aggregated_by(aggregation),
    )


@dataclasses.dataclass(frozen=True)
class GammaWeight(Surrogate):
    """phi(W) A log pi, phi(W) = W^k exp(lambda (1 - W)), a constant: VESPO (arXiv 2602.10693).

    W is the product of the ratios of an answer's tokens, one weight for all of them. (k, lambda) are `positive` where
    A >= 0 and `negative` elsewhere. phi is 1 at W = 1, largest at W = k / lambda, and falls to 0 on both sides, so that
    answers far from the behaviour policy fade.
    """

    positive: tuple[float, float] = fields.non_negative((2.0, 3.0), called="(k, lambda) of positive advantages")
    negative: tuple[float, float] = fields.non_negative((3.0, 2.0), called="(k, lambda) of negative advantages")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        log_ratio = jax.lax.stop_gradient(log_importance_ratio(scores, rollouts)).sum(axis=-1, keepdims=True)
        log_ratio = jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)

        def weight(k: float, decay: float) -> Array:
            return jnp.exp(k * log_ratio - decay * jnp.expm1(log_ratio))

        phi = jnp.where(advantages >= 0, weight(*self.positive), weight(*self.negative))
        metrics = ratio_metrics(importance_ratio(scores, rollouts), rollouts.token_mask)
        metrics["answer_weight"] = (masked_sum(phi, rollouts.token_mask), metrics["importance_ratio"][1])
        return phi * advantages * scores.log_probs, metrics


def vespo(
    positive: tuple[float, float] = (2.0, 3.0),
    negative: tuple[float, float] = (3.0, 2.0),
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """VESPO (arXiv 2602.10693): A = GRPO's; sg(phi(W)) A log pi, phi(W) = W^k e^(lambda (1-W)), W = product of rho.

    (k, lambda) are `positive` where A >= 0, `negative` elsewhere. No clip and no normalisation by length: phi has its
    maximum at W = k / lambda and falls to 0 on both sides. Good answers therefore weigh most at W = 2/3, before they
    have become likelier, and bad ones at W = 3/2, while they are still likelier than when they were sampled. W of a
    long answer soon leaves 1: a thousand tokens that become 0.1 % likelier make a factor of e. The loss does not
    estimate the return.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code (TRL).
    Peers: TRL.
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=GammaWeight(positive, negative),
        aggregation=aggregated_by(aggregation),
    )


@dataclasses.dataclass(frozen=True)
class ClippedGeometricMean(Surrogate):
    """s A, s = exp( mean_t of min(log rho_t, high) where A > 0, of max(log rho_t, -low) elsewhere ): GMPO.

    (arXiv 2507.20673). One ratio for the whole answer, at each of its tokens, from log-ratios that are clipped token by
    token, on the side to which A pushes; ClippedSequenceRatio clips their mean. `low` and `high` are limits of log rho.
    A clipped token has no gradient, the others have that of s A / length.
    """

    low: float = fields.positive(0.4, called="the lower limit of log-ratios")
    high: float = fields.positive(0.4, called="the upper limit of log-ratios")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        log_ratio = log_importance_ratio(scores, rollouts)
        limited = jnp.where(advantages > 0, jnp.minimum(log_ratio, self.high), jnp.maximum(log_ratio, -self.low))
        mean = masked_mean(limited, mask, axis=-1)[..., None]
        ratio = jnp.broadcast_to(jnp.exp(jnp.clip(mean, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)), mask.shape)
        return ratio * advantages, ratio_metrics(ratio, mask, limited != log_ratio)


def gmpo(
    clip: Clip = 0.4,
    kl: float | KL = 0.0,
) -> Objective:
    """GMPO (arXiv 2507.20673): A = GRPO's; s A, s the geometric mean of an answer's rho, each clipped to e^+-0.4.

    A rho is clipped on the side to which A pushes it. `clip` holds the limits of log rho, not of rho. Unlike in GSPO
    single tokens are clipped, before the mean. The mean is over answers, each with one value. `kl` adds k3 as TRL does.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code (TRL, verl).
    Peers: TRL, verl.
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=ClippedGeometricMean(*both_sides(clip)),
        aggregation=SequenceMean(),
        penalties=divergence(kl, "k3").penalty,
    )


@dataclasses.dataclass(frozen=True)
class MirrorDescent(Surrogate):
    """A log pi - tau/2 (log pi/mu)^2: a policy gradient with a squared log-ratio in the place of a clip.

    `of` an `answer` squares the sum over its tokens, in equal parts at each of them (Kimi k1.5, arXiv 2501.12599); of a
    `token`, each one's log-ratio. With A = r - V and log-probabilities summed over the answer, the maximum over all
    policies is mu exp(A / tau), up to its normalisation.
    """

    tau: float = fields.non_negative(0.1)
    of: Literal["answer", "token"] = "answer"

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        log_ratio = log_importance_ratio(scores, rollouts)
        square = log_ratio**2
        if self.of == "answer":
            square = log_ratio.sum(axis=-1, keepdims=True) ** 2 / jnp.maximum(mask.sum(axis=-1, keepdims=True), 1)
        values = advantages * scores.log_probs - self.tau / 2 * square
        return values, ratio_metrics(importance_ratio(scores, rollouts), mask)


def kimi_mirror_descent(
    tau: float = 0.1,
    of: Literal["answer", "token"] = "answer",
) -> Objective:
    """Kimi k1.5 (arXiv 2501.12599): (r - group mean) log pi - tau/2 (log pi/mu)^2, log pi of the whole answer.

    Mirror descent: a batch moves the policy towards mu exp((r - mean) / tau), and no ratio or clip is needed for
    several steps on it. The first step on a batch, where log pi/mu = 0, is Dr. GRPO's. `of=token` squares the log-ratio
    of each token, as ROLL does. The default of tau is our choice.

    Degenerate: groups with equal rewards are still pulled back to the policy that sampled.
    Evidence: code (ROLL); the square of whole answers is second-hand.
    Peers: ROLL.
    """
    return Objective(
        advantages=GroupMean(),
        surrogate=MirrorDescent(tau, of),
        aggregation=SequenceSum(),
    )


@dataclasses.dataclass(frozen=True)
class SmoothedStandardisation(RolloutPart):
    """The smaller, in absolute value, of two mixtures of A_new and A_total: DCPO (arXiv 2509.02333).

        A_new = (r - mean) / std of the group              A_total = (r - mean) / std of all the prompt's groups so far
        (1 - 1/i) A_new + A_total / i                      A_new / i + (1 - 1/i) A_total

    i counts the prompt's groups, those of this batch included. A group with equal rewards has A_new = 0 and gets
    A_total / i, so it still learns if others had other rewards; if the prompt has a single group so far, both are
    GRPO's. Groups have equal weights in the total, whose variance is the mean of theirs plus that of their means.
    `unbiased` divides by G - 1.
    """

    unbiased: bool = False
    smallest_group: ClassVar[int] = 2

    def init(self, sizes: Sizes) -> Any:
        """Number of groups, mean and variance so far, each `[num_prompts]`."""
        return {name: jnp.zeros(sizes.num_prompts) for name in ("groups", "mean", "variance")}

    def update_state(self, values: Array, rollouts: Rollouts, state: Any) -> tuple[Array, Any]:
        prompts = rollouts.prompt_index
        before = {name: table[prompts] for name, table in state.items()}
        same_prompt = rollouts.same_prompt
        here = same_prompt.sum(axis=-1)
        groups = before["groups"] + here

        equal = all_equal(values)
        mean = jnp.where(equal, values[:, 0], values.mean(axis=-1))
        variance = jnp.where(equal, 0.0, values.var(axis=-1, ddof=1 if self.unbiased else 0))
        # Deviations from a mean of the same rewards, so that rewards which never change have no variance.
        origin = jnp.where(before["groups"] > 0, before["mean"], masked_mean(mean, same_prompt, axis=-1))
        deviates = ~all_equal(jnp.stack([mean, origin], axis=-1))
        deviation = jnp.where(deviates, mean - origin, 0.0)
        moved = masked_mean(deviation, same_prompt, axis=-1) * here / groups
        squares = here * masked_mean(variance + deviation**2, same_prompt, axis=-1)
        total = {
            "groups": groups,
            "mean": origin + moved,
            "variance": (before["groups"] * before["variance"] + squares) / groups - moved**2,
        }

        def standardised(mean: Array, variance: Array) -> Array:
            varies = variance > (jnp.finfo(values.dtype).eps * mean) ** 2
            scale = jnp.sqrt(jnp.where(varies, variance, 1.0))
            return jnp.where(varies[:, None], (values - mean[:, None]) / scale[:, None], 0.0)

        of_group, of_all = standardised(mean, variance), standardised(total["mean"], total["variance"])
        share = 1.0 / groups[:, None]
        mostly_group, mostly_all = ((1 - share) * a + share * b for a, b in ((of_group, of_all), (of_all, of_group)))
        smaller = jnp.where(jnp.abs(mostly_group) < jnp.abs(mostly_all), mostly_group, mostly_all)
        return smaller, {name: table.at[prompts].set(total[name]) for name, table in state.items()}


@dataclasses.dataclass(frozen=True)
class ProbabilityClip(Surrogate):
    """PPO's clip with limits that widen as the behaviour probability q falls: DCPO (arXiv 2509.02333).

        (1 + sqrt(max(1 - 4 low / q, 0))) / 2  <=  rho  <=  min((1 + sqrt(1 + 4 high / q)) / 2, limit)

    that is |rho (rho - 1)| q <= low or high. No lower limit is below 1/2. `limit` is also the dual clip of
    `ClippedRatio`.
    """

    low: float = fields.positive(0.16, called="the lower limit of |rho (rho - 1)| q")
    high: float = fields.positive(0.2, called="the upper limit of |rho (rho - 1)| q")
    limit: float = fields.above(1, 10.0, called="the limit of the importance ratio")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        inverse = jnp.exp(-jnp.where(mask, rollouts.behaviour_log_probs, 0.0))
        lowest = (1.0 + jnp.sqrt(jnp.maximum(1.0 - 4.0 * self.low * inverse, 0.0))) / 2.0
        highest = jnp.minimum((1.0 + jnp.sqrt(1.0 + 4.0 * self.high * inverse)) / 2.0, self.limit)
        ratio = importance_ratio(scores, rollouts)
        return clipped(ratio, mask, advantages, 1.0 - lowest, highest - 1.0, self.limit)


def dcpo(
    clip: Clip = (0.16, 0.2),
    limit: float = 10.0,
    unbiased_std: bool = False,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """DCPO (arXiv 2509.02333): A = GRPO's, mixed with all earlier groups; rho clipped by |rho (rho - 1)| q <= `clip`.

    q is the behaviour probability of the token: the less likely it is, the more it may change, up to a ratio of
    `limit` (down to 1/2), which also bounds the loss where A < 0. The advantages are those of
    `SmoothedStandardisation`: a prompt whose rewards are equal in one batch still learns from earlier ones. The first
    step on a prompt's first group is GRPO's. The paper adds up each answer's mean over tokens, which we average; the
    released code takes the mean over all tokens of a micro-batch, which is an answer's where that holds one. Its
    standard deviation is `unbiased_std`.

    Degenerate: as long as all rewards of a prompt have been equal its groups get exactly zero.
    Evidence: code (the authors').
    """
    return Objective(
        advantages=SmoothedStandardisation(unbiased_std),
        surrogate=ProbabilityClip(*both_sides(clip), limit=limit),
        aggregation=aggregated_by(aggregation),
    )
