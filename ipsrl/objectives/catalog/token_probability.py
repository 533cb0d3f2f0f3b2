"""GRPO that uses token probabilities: to hold back sure answers, to damp unlikely ones, or to keep them."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import Checked, above, at_least, non_negative, open_probability, positive, probability, share
from ipsrl.objectives.advantages import GroupMeanStd, group_centred
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.catalog.arguments import KL, Clip, divergence, with_clip
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT, importance_ratio
from ipsrl.objectives.estimators.permutations import permuted_among
from ipsrl.objectives.estimators.ranks import kth_largest, quantile
from ipsrl.objectives.estimators.token_shares import SHARE_ROUNDING
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import Penalty, RolloutPart, Surrogate
from ipsrl.objectives.surrogates import ClippedRatio, ratio_metrics
from ipsrl.objectives.ties import all_equal, rounding
from ipsrl.structures import Metrics, PolicyScores, Rollouts, masked_mean, masked_sum

PromptPart = Literal["all", "lowest", "question"]


@dataclasses.dataclass(frozen=True)
class OfPrompt:
    """ARM's reference: the tokens of the prompt that measure how sure the policy is of it."""

    part: PromptPart = "all"

    NAMED: ClassVar[dict[str, Callable[..., "OfPrompt"]]] = {}


# The text `reference=prompt` arrives as `OfPrompt()`, the argument "prompt" of Python as itself.
OfPrompt.NAMED["prompt"] = OfPrompt


def low_probability_confidence(log_probs: Array, mask: Array, fraction: float) -> Array:
    """Geometric mean probability of the least likely tokens of each row, `[..., T]` -> `[...]` in (0, 1].

        c = exp( mean of the k smallest log-probabilities ),   k = max(1, ceil(fraction * length))

    The rounding is our reading (arXiv 2602.05281 does not state it). A row without tokens gets 1.
    """
    length = mask.sum(axis=-1)
    count = jnp.clip(jnp.ceil(fraction * length * (1.0 - SHARE_ROUNDING)), 1, jnp.maximum(length, 1))
    highest = -kth_largest(-log_probs, mask, count, axis=-1)
    below = mask & (log_probs < highest[..., None])
    # The rest of the k tokens tie at the largest of the k values.
    total = masked_sum(log_probs, below, axis=-1) + (count - below.sum(axis=-1)) * highest
    return jnp.where(length > 0, jnp.exp(total / count), 1.0)


@dataclasses.dataclass(frozen=True)
class AnswerConfidence(RolloutPart):
    """ARM: shifts advantages against the policy's confidence in its own answer (ProGRPO, arXiv 2602.05281).

        A~_g = A_g + alpha (c(q) - c(o_g))      in groups that pass the gate, A_g elsewhere

    c(o_g) is the geometric mean probability of the `low_fraction` least likely tokens of the answer; c(q) is a
    reference level. Both use the behaviour policy's log-probabilities and are constants for the gradient.
    |A~ - A| <= alpha.

    The paper's full text was not at hand; where the sources leave a choice, it is a field (our reading: the defaults).

    Attributes:
      alpha: weight of the shift; 0.3 comes from a third-party adaptation.
      low_fraction: share of an answer's tokens that enters its confidence.
      reference: `prompt`, exp of the mean log-probability of the prompt's tokens, one number for a group; `correct`,
        mean confidence of the group's correct answers, which needs no prompt log-probabilities; `other_prompt`, a
        placebo: the numbers of `prompt`, permuted over the prompts of the batch by `Rollouts.keys`.
      shifted: `all` answers of the group (the quoted equation), or the `correct` ones only; `permuted`, a placebo: all,
        but the shifts of the correct answers are permuted among these by `Rollouts.keys`.
      gate: `any_correct`, groups with at least one right answer (the quoted equation, which also shifts groups
        that are all correct); `mixed`, groups whose rewards differ.
      prompt_part: prompt tokens averaged in c(q): `all`, the `lowest` (the same low_fraction), or the `question`
        (without the template around it).
    """

    CALLED: ClassVar[str] = "answer confidence (ARM)"
    alpha: float = non_negative(0.3)
    low_fraction: float = share(0.2)
    reference: Literal["prompt", "correct", "other_prompt"] = "prompt"
    shifted: Literal["all", "correct", "permuted"] = "all"
    gate: Literal["any_correct", "mixed"] = "any_correct"
    prompt_part: PromptPart = "all"

    @property
    def needs(self) -> frozenset[str]:
        random = {"keys"} if self.reference == "other_prompt" or self.shifted == "permuted" else set()
        of_prompt = {"prompt_log_probs"} if self.reference != "correct" else set()
        question = {"question_mask"} if of_prompt and self.prompt_part == "question" else set()
        return frozenset(random | of_prompt | question)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        confidence = low_probability_confidence(rollouts.behaviour_log_probs, rollouts.token_mask, self.low_fraction)
        correct = rollouts.right
        shift = self.alpha * (self._reference_level(rollouts, confidence, correct)[:, None] - confidence)
        if self.shifted == "permuted":
            shift = jnp.where(correct, permuted_among(shift, correct, rollouts.keys), shift)
        gate = correct.any(axis=-1) if self.gate == "any_correct" else ~all_equal(rollouts.rewards)
        moved = gate[:, None] & (correct | (self.shifted != "correct"))
        return values + jnp.where(moved, shift, 0.0)[..., None]

    def _reference_level(self, rollouts: Rollouts, confidence: Array, correct: Array) -> Array:
        if self.reference == "correct":
            return masked_mean(confidence, correct, axis=-1)
        mask = rollouts.prompt_mask
        if self.prompt_part == "question":
            mask = mask & rollouts.question_mask
        fraction = self.low_fraction if self.prompt_part == "lowest" else 1.0
        level = low_probability_confidence(rollouts.prompt_log_probs, mask, fraction)
        return jax.random.permutation(rollouts.keys[0], level) if self.reference == "other_prompt" else level


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
    """ProGRPO (arXiv 2602.05281): A = GRPO's + alpha (c(prompt) - c(answer)), c geometric mean probability of tokens.

    GRPO with ARM: answers that the policy is sure of lose, unlikely ones gain; the mean is over all tokens. c(answer)
    is of its least likely fifth, c(prompt) of all its tokens. `standardise=False` subtracts the group mean only. The
    arguments up to `gate` are the open choices of `AnswerConfidence`; `reference=correct` needs no prompt
    log-probabilities, and `reference=prompt(lowest)` names the tokens of the prompt: `all`, the `lowest` or those of
    the `question`. Two placebos have the same numbers in wrong places: `reference=other_prompt`, and `shifted=permuted`
    among the correct answers of a group.

    Degenerate: groups without a right answer get zero; groups that are all correct are shifted unless `gate="mixed"`.
    Evidence: second-hand (two reviews that quote the equations); alpha and the open choices are our reading.
    """
    part = reference.part if isinstance(reference, OfPrompt) else "all"
    compared = "prompt" if isinstance(reference, OfPrompt) else reference
    return with_clip(
        clip,
        aggregation,
        advantages=group_centred(standardise),
        reweighting=(AnswerConfidence(alpha, low_fraction, compared, shifted, gate, part),),
    )


@dataclasses.dataclass(frozen=True)
class ProbabilityWeight(RolloutPart):
    """A_t (alpha p_t + 1 - alpha), p_t the behaviour probability of the token: AR (arXiv 2505.12929), for both signs of
    A.
    """

    alpha: float = probability(0.2)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        probability = jnp.exp(jnp.where(rollouts.token_mask, rollouts.behaviour_log_probs, 0.0))
        return values * (self.alpha * probability + 1.0 - self.alpha)


THRESHOLD = 0.5
"""Default of Lopti: behaviour probability at and above which a token waits for the second step."""


@dataclasses.dataclass(frozen=True)
class LowProbabilityFirst(Checked):
    """Lopti (arXiv 2505.12929): first the tokens with behaviour probability below `threshold`, then all others.

    The second step starts from the result of the first: unlikely tokens also move the likely ones through shared
    parameters, and the second step corrects that. Penalties act in both.
    """

    threshold: float = open_probability(0.5)

    def __call__(self, rollouts: Rollouts) -> Array:
        """`[P, G, T]` bool, True for the tokens of the first step."""
        return rollouts.behaviour_log_probs < math.log(self.threshold)


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
    return with_clip(
        clip,
        aggregation,
        advantages=GroupMeanStd(),
        reweighting=(ProbabilityWeight(alpha),),
        penalties=divergence(kl).penalty,
        first=LowProbabilityFirst(threshold) if lopti else None,
    )


@dataclasses.dataclass(frozen=True)
class BoundedRatio(Surrogate):
    """clip(rho, 0, bound) A, without PPO's minimum (Lp-Reg, arXiv 2510.03222): the gradient is zero above the bound."""

    bound: float = above(1, 10.0, called="the bound on the importance ratio")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        ratio = importance_ratio(scores, rollouts)
        values = jnp.minimum(ratio, self.bound) * advantages
        return values, ratio_metrics(ratio, rollouts.token_mask, ratio > self.bound)


@dataclasses.dataclass(frozen=True)
class LowProbabilityRegulariser(Penalty):
    """Lp-Reg (arXiv 2510.03222): pulls the policy to a proxy without noise, at unlikely tokens it would otherwise lose.

        proxy = behaviour policy restricted to tokens above kappa * (highest probability), renormalised
        cost  = KL(proxy || policy) at tokens with behaviour probability below the rho-quantile of the batch,
                negative advantage and positive proxy probability; 0 elsewhere

    The proxy is a constant. It is built from the `likeliest` tokens, so other tokens count as noise (our reading; the
    paper uses the whole vocabulary). The gradient by K log-probabilities takes K times the memory of other losses, and
    more than K times GRPO's time, because it does not fit into a processor's caches.

    Attributes:
      coefficient: beta.
      kappa, rho: as above.
      threshold: `min_p` as above, or `fixed`: probability above kappa itself.
      likeliest: K, number of the behaviour policy's most likely tokens known at each position.
      form: `paper` as above; `code` as released: k3 of the policy from the proxy at the sampled token alone, clamped to
        10 (zero gradient beyond), only where the policy is below the proxy, with the quantile over tokens with negative
        advantage.
    """

    name: ClassVar[str] = "proxy_kl"
    coefficient: float = positive(1.0, called="the coefficient of Lp-Reg")
    kappa: float = open_probability(0.02)
    rho: float = open_probability(0.01)
    threshold: Literal["min_p", "fixed"] = "min_p"
    likeliest: int = at_least(1, 20)
    form: Literal["paper", "code"] = "paper"
    needs: ClassVar[frozenset[str]] = frozenset({"top_log_probs"})

    @property
    def top_tokens(self) -> int:
        return self.likeliest

    def update_state(self, rollouts: Rollouts, advantages: Array, state: Any) -> tuple[Array, Any]:
        mask = rollouts.token_mask
        log_probs = jnp.where(mask, rollouts.behaviour_log_probs, 0.0)
        likeliest = rollouts.top_log_probs[..., : self.likeliest]
        in_proxy = (log_probs > self._log_threshold(likeliest)[..., 0]) & (log_probs >= likeliest[..., -1])
        probability = jnp.exp(log_probs)
        # An answer whose reward is its group's mean has an advantage of rounding.
        negative = mask & (advantages < -rounding(jnp.where(mask, advantages, 0.0), axis=(1, 2)))
        ranked = negative if self.form == "code" else mask
        regularised = negative & (probability < quantile(probability, ranked, self.rho)) & in_proxy
        return self.coefficient * regularised.astype(jnp.float32), state

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        likeliest = rollouts.top_log_probs[..., : self.likeliest]
        kept = mask[..., None] & (likeliest > self._log_threshold(likeliest))
        probability = jnp.exp(jnp.where(kept, likeliest, -jnp.inf))
        mass = probability.sum(axis=-1)
        mass = jnp.where(mass > 0, mass, 1.0)
        if self.form == "code":
            gap = jnp.where(mask, rollouts.behaviour_log_probs - jnp.log(mass) - scores.log_probs, 0.0)
            gap = jnp.clip(gap, 0.0, LOG_RATIO_LIMIT)
            divergence = jnp.minimum(jnp.exp(gap) - gap - 1.0, 10.0)
        else:
            gap = jnp.where(kept, likeliest - scores.top_log_probs[..., : self.likeliest], 0.0)
            divergence = (probability * gap).sum(axis=-1) / mass - jnp.log(mass)
        return divergence, {"proxy_kl": (divergence.sum(), mask.sum(dtype=jnp.float32))}

    def _log_threshold(self, likeliest: Array) -> Array:
        """The proxy keeps log-probabilities above this, `[P, G, T, 1]`; `likeliest` are sorted, largest first."""
        highest = likeliest[..., :1] if self.threshold == "min_p" else jnp.zeros_like(likeliest[..., :1])
        return highest + math.log(self.kappa)


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
