"""GRPO that teaches forks, the tokens of high entropy, otherwise than the rest of an answer.

Forks are those of the policy that sampled a batch of rollouts, the same for every mini-batch and optimiser step.
Published codes find them inside a mini-batch, by the policy being trained: the same on the first update of an unsplit
batch, and nearly the same later (our reading).
"""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import at_least, between, positive, share
from ipsrl.objectives.advantages import GroupMeanStd
from ipsrl.objectives.aggregation import TokenMean
from ipsrl.objectives.catalog.arguments import Clip, both_sides, with_clip
from ipsrl.objectives.estimators.importance import importance_ratio, log_importance_ratio, with_constant_weight
from ipsrl.objectives.estimators.ranks import largest, quantile, random_order
from ipsrl.objectives.estimators.token_shares import rounded_up
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.objectives.surrogates import LimitedRatio, clipped
from ipsrl.structures import Metrics, PolicyScores, Rollouts

Kept = Literal["highest", "others", "random", "planning"]


@dataclasses.dataclass(frozen=True)
class HighEntropyTokens(RolloutPart):
    """Only the `fraction` of tokens with the highest entropy keep their advantage (80/20 rule, arXiv 2506.01939).

    `threshold` selects them: `rank`, the ceil(fraction N) highest of the N valid tokens of the batch, and ties with the
    last; `quantile`, those at or above the (1 - fraction) quantile with linear interpolation, as in TRL. If all
    entropies are equal, both keep every token.

    `denominator` is the number of tokens in a mean over tokens: `kept`, as in the paper, or `all`, as in TRL.
    Surrogates scale with positive factors of A, so sum_kept f(A) / N_kept = sum_all f(A~) / N, where A~ is A N / N_kept
    on kept tokens and 0 on others. N / N_kept is that of the whole batch, in its mini-batches too.

    `tokens` has controls: `others` keeps those that `highest` leaves out, `random` ceil(fraction N) random ones,
    `planning` those that the environment marks, however many.
    """

    fraction: float = share(0.2)
    threshold: Literal["rank", "quantile"] = "rank"
    denominator: Literal["kept", "all"] = "kept"
    tokens: Kept = "highest"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"random": {"keys"}, "planning": {"planning_mask"}}.get(self.tokens, ()))

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        kept = self.kept(rollouts)
        if self.denominator == "kept":
            values = values * rollouts.token_mask.sum(dtype=jnp.float32) / jnp.maximum(kept.sum(dtype=jnp.float32), 1.0)
        return jnp.where(kept, values, 0.0)

    def kept(self, rollouts: Rollouts) -> Array:
        """`[P, G, T]` bool, the tokens that keep their advantage."""
        mask = rollouts.token_mask
        if self.tokens == "planning":
            return mask & rollouts.planning_mask
        if self.tokens == "random":
            return largest(random_order(rollouts.keys, mask.shape[1:]), mask, rounded_up(self.fraction, mask))
        highest = self._highest(rollouts.behaviour_entropy, mask)
        return mask & ~highest if self.tokens == "others" else highest

    def _highest(self, entropy: Array, mask: Array) -> Array:
        if self.threshold == "quantile":
            return mask & (entropy >= quantile(entropy, mask, 1.0 - self.fraction))
        return largest(entropy, mask, rounded_up(self.fraction, mask))


def forking_tokens(
    fraction: float = 0.2,
    threshold: Literal["rank", "quantile"] = "rank",
    denominator: Literal["kept", "all"] = "kept",
    clip: Clip = (0.2, 0.28),
    tokens: Kept = "highest",
) -> Objective:
    """80/20 forking tokens (arXiv 2506.01939): GRPO, clip 0.2 / 0.28, on only the fifth of tokens with the highest H.

    Mean over the kept tokens; `denominator="all"` with `threshold="quantile"` is TRL's, whose steps are smaller by
    about the fraction. The kept tokens are chosen once, among all valid tokens of a batch of rollouts, by the entropy
    of the policy that sampled it: our reading of the paper's "per batch". The denominators use N / N_kept of the whole
    batch, so a mini-batch with more forking tokens weighs more. DAPO's overlong penalty and dynamic sampling, which the
    paper also uses, are not included. `tokens` has controls: the `others`, as many `random` ones, or the `planning`
    tokens that the environment marks.

    Degenerate: groups with equal rewards get zero, but count in the choice; with equal entropies every token is kept.
    Evidence: paper and code (TRL).
    Peers: TRL.
    """
    return with_clip(
        clip,
        "token_mean",
        advantages=GroupMeanStd(),
        reweighting=(HighEntropyTokens(fraction, threshold, denominator, tokens),),
    )


@dataclasses.dataclass(frozen=True)
class TopCredit(LimitedRatio):
    """`ClippedRatio`, but at forks another gradient of right answers, another weight of wrong ones: SimKO.

    (arXiv 2510.14807). A fork is a token whose entropy, in the policy that sampled it, is above the `quantile` of its
    answer's. There, with the K likeliest tokens of that policy,

        A > 0:  gradient rho A ( (1 - spread) grad log pi + spread / K sum_k grad log pi_k ), the value is rho A
        A < 0, and the token is the likeliest:  `heavier` A in the place of A

    A token whose clip is active has no gradient, as in PPO. An answer of one token has no fork. Tokens that are
    impossible do not count among the K.
    """

    low: float = 0.2
    high: float = 0.2
    likeliest: int = at_least(1, 3, called="likeliest, the number of tokens that share the credit,")
    spread: float = between(0.0, 1.0, 0.01)
    heavier: float = positive(1.1)
    quantile: float = between(0.0, 1.0, 0.8)
    needs: ClassVar[frozenset[str]] = frozenset({"top_log_probs"})

    @property
    def top_tokens(self) -> int:
        return self.likeliest

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        forks = self.forks(rollouts)
        is_top = rollouts.tokens == rollouts.top_tokens[..., 0]
        advantages = jnp.where(forks & is_top & (advantages < 0), self.heavier * advantages, advantages)
        ratio = importance_ratio(scores, rollouts)
        spread = with_constant_weight(
            ratio,
            log_importance_ratio(scores, rollouts),
            dataclasses.replace(scores, log_probs=self._spread_log_probs(scores, rollouts)),
            rollouts,
        )
        ratio = jnp.where(forks & (advantages > 0), spread, ratio)
        return clipped(ratio, rollouts.token_mask, advantages, self.low, self.high)

    def forks(self, rollouts: Rollouts) -> Array:
        """`[P, G, T]` bool."""
        entropy, mask = rollouts.behaviour_entropy, rollouts.token_mask
        of_answer = jax.vmap(jax.vmap(lambda values, valid: quantile(values, valid, self.quantile)))
        return mask & (entropy > of_answer(entropy, mask)[..., None])

    def _spread_log_probs(self, scores: PolicyScores, rollouts: Rollouts) -> Array:
        possible = rollouts.token_mask[..., None] & jnp.isfinite(rollouts.top_log_probs[..., : self.likeliest])
        top = jnp.where(possible, scores.top_log_probs[..., : self.likeliest], 0.0)
        mean = top.sum(axis=-1) / jnp.maximum(possible.sum(axis=-1), 1)
        return (1.0 - self.spread) * scores.log_probs + self.spread * mean


def simko(
    top: int = 3,
    spread: float = 0.01,
    heavier: float = 1.1,
    quantile: float = 0.8,
    clip: Clip = 0.2,
) -> Objective:
    """SimKO (arXiv 2510.14807): GRPO; at forks right answers teach `top` tokens, wrong ones the likeliest 1.1 times.

    A fork is a token whose entropy is above the 0.8 quantile of its answer's. A right answer's token gives there 0.01
    of its credit to the three likeliest tokens, see `TopCredit`. Answers of one token have no fork: on a bandit it is
    GRPO. Forks and likeliest tokens are those of the policy that sampled; the authors find them anew, in the policy
    being trained, at each optimiser step: the same in the first one on a batch.

    Degenerate: groups with equal rewards get exactly zero.
    Evidence: code (the authors').
    """
    return Objective(
        advantages=GroupMeanStd(),
        surrogate=TopCredit(*both_sides(clip), likeliest=top, spread=spread, heavier=heavier, quantile=quantile),
        aggregation=TokenMean(),
    )
