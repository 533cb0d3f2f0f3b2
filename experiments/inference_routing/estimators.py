"""Estimates of a loss that is seen with probability p only, and their exact variance.

    l_hat = b + 1[observed] (l - b) / p        mean l, variance (l - b)^2 (1 / p - 1)

for any baseline b that does not depend on whether this loss is observed. With b = 0 it is importance weighting. A
division by max(p, least) instead (clipping) has the mean b + (l - b) p / max(p, least): a bias towards b.

Arrays may have any shape, the same for all. The formulas are our reading of arXiv 2603.04247.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Seen:
    """Losses observed so far, by layer and confidence.

    Attributes:
      weight: `[n, levels]`, sum of their weights.
      totals: `[2, n, levels]`, weighted sums of the losses of answering and of passing on.
    """

    weight: Array
    totals: Array

    def with_losses(self, place: tuple[Array, Array], weight: Array, losses: Array) -> "Seen":
        """Further losses `[2, n]`, at one confidence of each layer; a weight of 0 for those that are not observed."""
        return Seen(
            self.weight.at[place].add(weight),
            self.totals.at[:, *place].add(weight * losses),
        )


@dataclasses.dataclass(frozen=True)
class Estimator:
    """Importance weighting with a baseline.

    Attributes:
      baseline: `constant`; `mean`, that of the losses observed before at the same place, total / (1 + weight), at first
        0; `weighted mean`, the same with the weights 1 / p. What is observed are rather the tasks that are likely to
        be, so that the first mean is a biased estimate of b, and the second a noisy one. Neither biases l_hat.
      constant: b, if it is constant.
      least: the smallest probability by which anything is divided, 0 for none. Above 0 the estimate is biased.
    """

    baseline: str = "constant"
    constant: float = 0.0
    least: float = 0.0

    def baselines(self, seen: Seen) -> Array:
        """The baseline of each place, in the shape of `seen.totals`."""
        if self.baseline == "constant":
            return jnp.full_like(seen.totals, self.constant)
        return seen.totals / (1 + seen.weight)

    def weight_of(self, observed: Array, probability: Array) -> Array:
        """The weight of a loss in the baselines to come."""
        return observed / probability if self.baseline == "weighted mean" else observed

    def estimate(self, loss: Array, baseline: Array, observed: Array, probability: Array) -> Array:
        """The estimate of a loss; `loss` counts only where `observed` is 1.0, elsewhere it is 0.0."""
        return baseline + observed * self._jump(loss, baseline, probability)

    def variance(self, loss: Array, baseline: Array, probability: Array) -> Array:
        """The variance of the estimate over whether the loss is observed, exact."""
        jump = self._jump(loss, baseline, probability)
        return jump**2 * probability * (1 - probability)

    def _jump(self, loss: Array, baseline: Array, probability: Array) -> Array:
        return (loss - baseline) / jnp.maximum(probability, self.least)
