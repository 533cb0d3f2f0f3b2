"""log R of an outcome, used instead of an advantage: `[P, G]` -> `[P, G]`."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import finite, positive
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class LogReward(RolloutPart):
    """A = max(exponent * log r, floor): the log-reward of flow balance.

    The target distribution is proportional to r^exponent. Rewards of zero and negative rewards get `floor`: their
    target odds against a reward of one are exp(floor) to 1.
    """

    floor: float = finite(-10.0, called="log_reward_floor")
    exponent: float = positive(1.0, called="reward_exponent")

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        positive = values > 0
        log_rewards = self.exponent * jnp.log(jnp.where(positive, values, 1.0))
        return jnp.where(positive, jnp.maximum(log_rewards, self.floor), self.floor)
