"""Decoding rules: a policy whose evaluations sample from the likely part of each distribution only.

Training samples from whole distributions: its objectives need the log-probabilities of what was sampled.
"""

import dataclasses
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl import specifications
from ipsrl.distributed.placement import PlacementRules
from ipsrl.fields import Checked, below_one, positive, share
from ipsrl.policies.policy import Cache, Parameters, Policy
from ipsrl.structures import PolicyScores, Prompts, Trajectories


@dataclasses.dataclass(frozen=True)
class Decoding(Checked):
    """Rules for the next action, applied one after the other to its distribution, as in `transformers`.

    An action with the probability of the last one that is kept is kept, too, so that the order of actions never counts.

    Attributes:
      temperature: of the distribution.
      top_k: keeps the k likeliest actions; None for all.
      top_p: of these, the likeliest whose probabilities add up to p (arXiv 1904.09751), at least one.
      min_p: of these, those with at least p times the probability of the likeliest (arXiv 2407.01082).

    Raises:
      ValueError: a number is out of its range.
    """

    temperature: float = positive(1.0)
    top_k: int | None = positive(None)
    top_p: float = share(1.0)
    min_p: float = below_one(0.0)

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The rules in a text such as "temperature=0.7, top_p=0.95"; None in an empty one.

        Raises:
          ValueError: a rule is unknown, or as the constructor.
        """
        return specifications.build(f"decoding({text})", {"decoding": cls}, "rule") if text.strip() else None

    def __call__(self, logits: Array) -> Array:
        """The logits `[..., V]` with -inf for actions that are not kept; the temperature only decides on these."""
        probs = jax.nn.softmax(logits.astype(jnp.float32) / self.temperature)
        if self.top_k is not None and self.top_k < probs.shape[-1]:
            least = jax.lax.top_k(probs, self.top_k)[0][..., -1:]
            probs = jnp.where(probs >= least, probs, 0.0)
        if self.top_p < 1:
            descending = -jnp.sort(-probs)
            # Those before an action add up to less than p: with it, p is reached.
            needed = jnp.cumsum(descending, axis=-1) - descending < self.top_p * descending.sum(axis=-1, keepdims=True)
            least = jnp.min(jnp.where(needed, descending, jnp.inf), axis=-1, keepdims=True)
            probs = jnp.where(probs >= least, probs, 0.0)
        kept = (probs > 0) & (probs >= self.min_p * probs.max(axis=-1, keepdims=True))
        return jnp.where(kept, logits, -jnp.inf)


@dataclasses.dataclass(frozen=True)
class Decoded:
    """A policy by decoding rules: to be sampled from at their temperature, not to be trained."""

    policy: Policy
    decoding: Decoding

    optional_fields: ClassVar[frozenset[str]] = frozenset()

    @property
    def placement_rules(self) -> PlacementRules:
        return self.policy.placement_rules

    def init(self, key: Array) -> Parameters:
        return self.policy.init(key)

    def start(self, parameters: Parameters, prompts: Prompts, group_size: int, max_tokens: int) -> Cache:
        return self.policy.start(parameters, prompts, group_size, max_tokens)

    def step(self, parameters: Parameters, cache: Cache, observations: Array, position: Array) -> tuple[Array, Cache]:
        logits, cache = self.policy.step(parameters, cache, observations, position)
        return self.decoding(logits), cache

    def score(self, parameters: Parameters, trajectories: Trajectories, temperature: float) -> PolicyScores:
        raise ValueError("a policy by decoding rules has no scores: score the policy itself")
