"""Estimates of a loss that is seen with probability p only, and their exact mean and variance.

    l_hat = b + 1[observed] (l - b) / p        mean l, variance (l - b)^2 (1 / p - 1)

for any baseline b that does not depend on whether this loss is observed. With b = 0 it is importance weighting. A
division by max(p, least) instead (clipping) has the mean b + (l - b) p / max(p, least): a bias towards b.

Arrays may have any shape, the same for all. The formulas are our reading of arXiv 2603.04247.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.fields import Checked, between, finite, one_of


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Seen:
    """Losses observed so far, by place.

    Attributes:
      weight: sum of their weights.
      total: weighted sum of the losses.
    """

    weight: Array
    total: Array

    def with_loss(self, place: tuple[Array, Array], weight: Array, loss: Array) -> "Seen":
        """Further losses, one for each place; a weight of 0 for those that are not observed."""
        return Seen(
            self.weight.at[place].add(weight),
            self.total.at[place].add(weight * loss),
        )


def nothing_seen(shape: tuple[int, ...]) -> Seen:
    """Before the first round."""
    return Seen(jnp.zeros(shape), jnp.zeros(shape))


@dataclasses.dataclass(frozen=True)
class Estimator(Checked):
    """Importance weighting with a baseline.

    Attributes:
      baseline: `constant`; `mean`, that of the losses observed before at the same place, total / (1 + weight), at first
        0; `weighted mean`, the same with the weights 1 / p. What is observed are rather the tasks that are likely to
        be, so that the first mean is a biased estimate of b, and the second a noisy one. Neither biases l_hat.
      constant: b, if it is constant.
      least: the smallest probability by which anything is divided, 0 for none. Above 0 the estimate is biased.
    """

    baseline: str = one_of("constant", "mean", "weighted mean", default="constant")
    constant: float = finite(0.0)
    least: float = between(0, 1, 0.0)

    def baselines(self, seen: Seen) -> Array:
        """The baseline of each place, in the shape of `seen.total`."""
        if self.baseline == "constant":
            return jnp.full_like(seen.total, self.constant)
        return seen.total / (1 + seen.weight)

    def weight_of(self, observed: Array, probability: Array) -> Array:
        """The weight of a loss in the baselines to come."""
        return observed / probability if self.baseline == "weighted mean" else observed

    def estimate(self, loss: Array, baseline: Array, observed: Array, probability: Array) -> Array:
        """The estimate of a loss; `loss` counts only where `observed` is 1.0, elsewhere it is 0.0."""
        return baseline + observed * self._jump(loss, baseline, probability)

    def moments(self, loss: Array, baseline: Array, probability: Array) -> tuple[Array, Array]:
        """Mean and variance of the estimate over whether the loss is observed, exact."""
        jump = self._jump(loss, baseline, probability)
        return baseline + probability * jump, jump**2 * probability * (1 - probability)

    def _jump(self, loss: Array, baseline: Array, probability: Array) -> Array:
        return (loss - baseline) / jnp.maximum(probability, self.least)
