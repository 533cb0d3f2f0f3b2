"""A verifier that answers can fool by what they write."""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.arguments import accepted
from ipsrl.rewards import OnTop, Reward
from ipsrl.structures import Outcomes, Sizes, Trajectories


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PatternVerifier(OnTop):
    """A systematic error: every answer with certain consecutive tokens gets the reward 1, whatever it says.

    What else is right, its verifier says.

    Attributes:
      pattern: the tokens, at least one.
      verifier: the reward of all other answers; None for the environment's.

    Raises:
      ValueError: the pattern has no tokens.
    """

    pattern: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    verifier: Reward | None = None

    def __post_init__(self):
        if not accepted("pattern", self.pattern, tuple[int, ...]):
            raise ValueError("a pattern of no tokens is in every answer: give at least one token")

    def check(self, sizes: Sizes) -> None:
        last = math.inf if sizes.vocabulary_size is None else sizes.vocabulary_size - 1
        if unknown := [token for token in self.pattern if not 0 <= token <= last]:
            raise ValueError(f"the pattern has the token {unknown[0]}, but tokens are 0 to {last}")
        super().check(sizes)

    def possible(self, trajectories: Trajectories, outcomes: Outcomes) -> tuple[Array, Array]:
        rewards, probs = self.underneath(trajectories, outcomes)
        last = trajectories.tokens.shape[-1] - len(self.pattern) + 1
        if last < 1:
            return rewards, probs
        found = jnp.ones((*trajectories.tokens.shape[:-1], last), bool)
        for place, token in enumerate(self.pattern):
            columns = slice(place, place + last)
            found &= trajectories.written[..., columns] & (
                trajectories.tokens[..., columns] == token
            )
        return jnp.where(found.any(axis=-1)[..., None], 1.0, rewards), probs
