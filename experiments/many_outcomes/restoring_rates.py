"""Rate at which inverse probability scaling returns a policy close to uniform to K equally good outcomes.

Half of the policy's logits are shifted by +`displacement` and half by -`displacement`, and all K outcomes have reward
1. The rate is the share of the displacement that the mean update of `ips_dr_grpo` removes in a unit of time (updates x
step size), relative to that of r / p with infinitely many samples; 1 is the ideal. GRPO has rate 0, because a tie has
no advantages.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import softmax

from ipsrl import objectives
from ipsrl.checking.arguments import checked
from ipsrl.dynamics.softmax import finite_groups, flows
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

ESTIMATES = ("counts", "exact")
"""Estimates of an outcome's probability: its frequency in the group, or the policy's own probability."""
GROUPS_PER_BATCH, BATCHES_AT_ONCE = 32, 8
"""The samples of 8 x 32 groups are in memory at once, with a number for each outcome."""


@dataclasses.dataclass(frozen=True)
class Displaced:
    """A displaced policy, and the rates at which groups return it; K is even."""

    estimate: str
    num_outcomes: int
    group_size: int
    displacement: float

    @property
    def start(self) -> np.ndarray:
        """`[K]`, the logits."""
        return self.displacement * np.repeat([1.0, -1.0], self.num_outcomes // 2)

    @property
    def ideal(self) -> float:
        return ideal_restoring_rate(self.num_outcomes, alpha=1.0)

    def removed(self, updates: np.ndarray) -> np.ndarray:
        """The share of the displacement that updates `[..., K]` remove."""
        return -(updates @ self.start) / (self.start @ self.start)

    def sampled(self, batches: int) -> np.ndarray:
        """`[batches]` float64, the rate from one sampled update of each batch of 32 groups."""
        bandit = Bandit((1.0,) * self.num_outcomes)
        objective = objectives.make(f"ips_dr_grpo(probability={self.estimate})")
        settings = TrainSettings(
            steps=1,
            prompts_per_step=GROUPS_PER_BATCH,
            group_size=self.group_size,
            optimizer="sgd",
            learning_rate=1.0,
            max_gradient_norm=None,
        )
        trainer = Trainer(bandit, Tabular.of(bandit, self.start), objective, settings)

        def update(seed):
            logits = train_ensemble(trainer, seed[None], _logits)
            return logits[0, 1] - logits[0, 0]

        updates = jax.lax.map(update, jnp.arange(batches), batch_size=BATCHES_AT_ONCE)
        # Exact scaling divides rewards by their running mean, K for K rewards of 1: its time is slower by K.
        clock = self.num_outcomes if self.estimate == "exact" else 1.0
        return clock * self.removed(np.asarray(updates, np.float64)) / self.ideal

    def exact(self) -> float:
        """The exact mean of `sampled`."""
        ones = np.ones(self.num_outcomes)
        if self.estimate == "exact":
            update = (1 - 1 / self.group_size) * flows.flow_velocity(self.start, ones, alpha=1.0)
        else:
            weights = finite_groups.count_weights(self.group_size)
            update = finite_groups.mean_field(softmax(self.start), ones, weights, "group mean")
        return float(self.removed(update) / self.ideal)

    def closed_form(self) -> float:
        """The limit of `exact` for small displacements; the group mean costs one sample."""
        if self.estimate == "exact":
            return 1 - 1 / self.group_size
        counts = finite_groups.count_weights(self.group_size)
        weights = finite_groups.without_one_sample(counts)
        return float(restoring_rate(self.num_outcomes, weights) / self.ideal)


def _logits(parameters: Parameters) -> jax.Array:
    """`[K]`, of a bandit policy with one prompt."""
    return parameters["logits"][0]


@checked
def restoring_rate(num_outcomes: int, weights: np.ndarray, reward: float = 1.0) -> float:
    """Rate per unit of time at which a tie of K outcomes returns to the uniform policy in the mean field, no baseline.

        lambda_G = -r w_G'(1 / K) / K^2

    0 for weights that do not fall with the count. For a group mean use `finite_groups.without_one_sample`.

    Raises:
      ValueError: there are fewer than two outcomes, the reward is not positive, or the weights are not `[G]`.
    """
    _check_tie(num_outcomes, reward)
    return float(
        -reward * expected_weight_slope(np.array(1 / num_outcomes), weights) / num_outcomes**2
    )


@checked
def ideal_restoring_rate(num_outcomes: int, alpha: float, reward: float = 1.0) -> float:
    """`restoring_rate` with infinitely many samples: lambda = alpha r K^(alpha - 1).

    Raises:
      ValueError: there are fewer than two outcomes, the reward is not positive, or alpha is negative.
    """
    _check_tie(num_outcomes, reward)
    if not alpha >= 0:
        raise ValueError(f"alpha is {alpha}, it must not be negative")
    return alpha * reward * num_outcomes ** (alpha - 1.0)


def _check_tie(num_outcomes: int, reward: float) -> None:
    if num_outcomes < 2:
        raise ValueError(f"num_outcomes is {num_outcomes}, a tie has at least 2")
    if not reward > 0:
        raise ValueError(f"reward is {reward}, it must be positive")


@checked
def expected_weight_slope(probability: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """dw_G/dp = (G - 1) E[omega(2 + B) - omega(1 + B)], B ~ Binomial(G - 2, p), for any shape of p; 0 for G = 1.

    Raises:
      ValueError: as in `expected_weight`.
    """
    weights = finite_groups.checked_weights(weights)
    if len(weights) == 1:
        return np.zeros(np.shape(probability))
    return (len(weights) - 1) * finite_groups.expected_weight(probability, np.diff(weights))
