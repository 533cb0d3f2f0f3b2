"""Parts that choose tokens by their rank among all valid tokens of a batch of rollouts.

The ranked quantities (behaviour log-probabilities and entropies) are fixed when the batch is sampled, so the choice is
the same for every mini-batch and optimiser step. Published codes rank inside a mini-batch by the policy being trained:
the same on the first update of an unsplit batch, and nearly the same later (our reading).
"""

import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import share
from ipsrl.objectives.estimators.ranks import largest, quantile, random_order
from ipsrl.objectives.estimators.token_shares import rounded_down, rounded_up, token_covariance
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts

Kept = Literal["highest", "others", "random", "planning"]


@dataclasses.dataclass(frozen=True)
class DropHighCovariance(RolloutPart):
    """Clip-Cov: a few tokens of high covariance, sampled at random, lose their advantage (arXiv 2505.22617).

        candidates: lowest < cov < highest;   dropped: min( max(1, floor(fraction N)), number of candidates )

    cov is `token_covariance`, N the number of valid tokens of the batch. Dropped tokens stay in the denominators. The
    released code also skips tokens that PPO already clips; there are none when the batch is sampled.
    """

    fraction: float = share(2e-4)
    lowest: float = 1.0
    highest: float = 5.0
    needs: ClassVar[frozenset[str]] = frozenset({"keys"})

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.lowest < self.highest:
            raise ValueError(
                f"candidates lie between {self.lowest} and {self.highest}, they need 0 <= lowest < highest"
            )

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        covariance = token_covariance(values, rollouts)
        candidates = rollouts.token_mask & (self.lowest < covariance) & (covariance < self.highest)
        draws = random_order(rollouts.keys, values.shape[1:])
        return jnp.where(largest(draws, candidates, rounded_down(self.fraction, rollouts.token_mask)), 0.0, values)


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
