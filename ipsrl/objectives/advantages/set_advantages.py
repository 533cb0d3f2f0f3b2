"""Advantages of an answer as a member of sets, and of maximum likelihood: `[P, G]` -> `[P, G]`.

Papers estimate these from random sets of k answers; here they are exact means over all sets of k in the group. Correct
answers are those of `Rollouts.right`.
"""

import dataclasses
from math import comb, sqrt
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import at_least, probability
from ipsrl.objectives.objective import RolloutPart, all_equal, rounding
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class PassAtK(RolloutPart):
    """Advantages of pass@k: mean of (set succeeds - rho) / s over sets of k that contain the answer (arXiv 2508.10751).

        rho = 1 - C(G-c, k) / C(G, k),    s = sqrt(rho (1 - rho)),    c correct answers among G
        A = (1 - rho) / s  if correct,    (1 - rho - C(G-c-1, k-1) / C(G-1, k-1)) / s = -c/(G-c) (1 - rho) / s  if not

    Zero if every set fails (c = 0) or every set succeeds (G - c < k). With k = 1 and rewards 0 and 1 this is GRPO.
    """

    k: int = at_least(1, 2, called="k, the size of a set,")

    @property
    def smallest_group(self) -> int:
        return self.k + 1

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        correct = rollouts.right
        # Exact tables by the number of correct answers; they do not depend on data.
        group = values.shape[-1]
        of_correct, of_wrong = np.transpose([self._advantages(number, group) for number in range(group + 1)])
        count = correct.sum(axis=-1, keepdims=True)
        return jnp.where(correct, jnp.float32(of_correct)[count], jnp.float32(of_wrong)[count])

    def _advantages(self, correct: int, group: int) -> tuple[float, float]:
        """Advantages of a correct and of a wrong answer in a group with `correct` correct answers."""
        wrong = group - correct
        if correct == 0 or wrong < self.k:
            return 0.0, 0.0
        # May be too small for a float, and then is 0, as both advantages are.
        fails = comb(wrong, self.k) / comb(group, self.k)
        of_correct = sqrt(fails / (1.0 - fails))
        return of_correct, -correct / wrong * of_correct


@dataclasses.dataclass(frozen=True)
class MaximumLikelihood(RolloutPart):
    """A_g = (r_g - mean) / mean^q of the group: MaxRL (q = 1, arXiv 2602.02710), GARL (arXiv 2604.25907).

    Between the return (q = 0) and the likelihood of success (q = 1). Zero if the mean is not positive, up to rounding,
    or all rewards are equal. With rewards 0 and 1 and success probability p, the mean update is w grad p, where w tends
    to p^-q as G grows; at q = 1, w = (1 - (1 - p)^(G-1)) / p. `centred=False` is A_g = r_g / mean^q; at q = 1 this is a
    mean over the correct answers alone, and w = (1 - (1 - p)^G) / p.
    """

    centred: bool = True
    q: float = probability(1.0)
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mean = values.mean(axis=-1, keepdims=True)
        earns = mean > rounding(values)
        scale = jnp.where(earns, mean, 1.0) ** self.q
        if not self.centred:
            return jnp.where(earns, values / scale, 0.0)
        return jnp.where(earns & ~all_equal(values)[:, None], (values - mean) / scale, 0.0)
