"""GRPO with other limits on how far a batch may move the policy: ratios of whole answers, a soft gate, a square."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.advantages.baselines import GroupMean, GroupMeanStd
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, both_sides, divergence
from ipsrl.objectives.objective import Objective, RolloutPart, all_equal
from ipsrl.objectives.surrogates.ratio import (
    ClippedGeometricMean,
    ClippedSequenceRatio,
    GammaWeight,
    MirrorDescent,
    ProbabilityClip,
    SoftGate,
)
from ipsrl.structures import Rollouts, Sizes, masked_mean


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
        aggregation=aggregated_by("sequence_mean"),
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
        aggregation=aggregated_by("sequence_mean"),
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
        aggregation=aggregated_by("sequence_sum"),
    )


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
        aggregation=aggregated_by("sequence_mean"),
        penalties=divergence(kl, "k3").penalty,
    )


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
        aggregation=aggregated_by("sequence_sum"),
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
