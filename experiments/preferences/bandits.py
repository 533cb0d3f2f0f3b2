"""Many bandits as one environment: a prompt is the number of a bandit, and its answer is one token, the arm."""

import abc
import functools
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from ipsrl.environments.token_stream import TokenStream
from ipsrl.structures import Outcomes, Prompts, Trajectories


class Bandits(TokenStream):
    """Base of environments whose rewards stand in a table; the policy sees the number of the prompt."""

    verifies_on_host: ClassVar[bool] = False
    max_tokens: ClassVar[int] = 1

    @property
    @abc.abstractmethod
    def reward_table(self) -> np.ndarray:
        """`[P, K]`, the reward of each arm of each bandit."""

    @property
    def num_observations(self) -> int:
        return len(self.reward_table)

    @functools.cached_property
    def prompt_table(self) -> Prompts:
        index = np.arange(len(self.reward_table), dtype=np.int32)
        return Prompts(index, index[:, None], np.ones((len(index), 1), bool))

    def verify(self, trajectories: Trajectories) -> Outcomes:
        arms = trajectories.tokens[..., 0]
        rewards = jnp.asarray(self.reward_table, jnp.float32)[
            trajectories.prompts.index[:, None], arms
        ]
        return Outcomes(rewards=rewards, outcome_id=arms)
