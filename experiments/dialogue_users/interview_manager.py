"""A small policy of `interview`, a table with shared parameters."""

import dataclasses

import jax
from jax import Array

from ipsrl.environments.agents.interview_users import PHASES, WORDS
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular

SPREAD = 0.1
"""Standard deviation of initial parameters."""


@dataclasses.dataclass(frozen=True)
class Manager(Tabular):
    """A policy of `Interview`: a table whose rows share parameters, so that what is learned in one block holds in all.

        logits[block, phase, word] = always + block_b + last_{phase, word}

    Parameters: `{"always": [V], "block": [blocks + 1, V], "last": [phases words, V]}`; the last block is that of the
    sub-policies.
    """

    def init(self, key: Array) -> Parameters:
        """Almost uniform, with normal parameters."""
        last = len(PHASES) * len(WORDS)
        shapes = {"always": (), "block": (self.num_observations // last,), "last": (last,)}
        return {
            name: SPREAD
            * jax.random.normal(jax.random.fold_in(key, number), (*shape, self.vocabulary_size))
            for number, (name, shape) in enumerate(shapes.items())
        }

    def table(self, parameters: Parameters) -> Array:
        """`[S, V]`, the logits."""
        both = parameters["block"][:, None] + parameters["last"]
        return parameters["always"] + both.reshape(self.num_observations, self.vocabulary_size)

    def logits(self, parameters: Parameters, observations: Array) -> Array:
        return self.table(parameters)[observations]
