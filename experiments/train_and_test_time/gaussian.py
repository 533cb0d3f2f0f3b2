"""Arms on a line under a Gaussian: a policy with a mean and a width, which training may narrow too early."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import positive
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular


@dataclasses.dataclass(frozen=True)
class Gaussian(Tabular):
    """The logit of action a in state s is -(a - mean_s)^2 / (2 std_s^2). Parameters: `mean` and `log_std`, both `[S]`.

    At the start every mean is in the middle of the actions.

    Attributes:
      num_observations: S.
      vocabulary_size: V, the number of actions.
      std: at the start.
    """

    std: float = positive(3.0)

    def init(self, key: Array) -> Parameters:
        """The initial means and widths; `key` is not used."""
        states = jnp.ones(self.num_observations)
        return {
            "mean": states * (self.vocabulary_size - 1) / 2,
            "log_std": states * jnp.log(self.std),
        }

    def logits(self, parameters: Parameters, observations: Array) -> Array:
        distance = jnp.arange(self.vocabulary_size) - parameters["mean"][:, None]
        table = -((distance / jnp.exp(parameters["log_std"])[:, None]) ** 2) / 2
        return table[observations]
