"""Advantages of an answer as a member of sets, and of the likelihood of success: `[P, G]` -> `[P, G]`.

What a paper estimates from random sets of k answers is here the exact mean over all sets of k that the group holds.
An answer is correct where its reward is above zero.
"""

import dataclasses
from math import comb, sqrt
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.fields import at_least
from ipsrl.objectives.inverse_probability import same_outcome
from ipsrl.objectives.objective import RolloutPart, all_equal
from ipsrl.structures import Rollouts


@dataclasses.dataclass(frozen=True)
class PassAtK(RolloutPart):
    """Advantages of pass@k: mean of (set succeeds - rho) / s over sets of k that hold the answer (arXiv 2508.10751).

        rho = 1 - C(G-c, k) / C(G, k),    s = sqrt(rho (1 - rho)),    c correct answers among G
        A = (1 - rho) / s  if correct,    (1 - rho - C(G-c-1, k-1) / C(G-1, k-1)) / s  if not

    Zero where every set fails (c = 0) or every set succeeds (G - c < k). k = 1 is GRPO's for rewards of 0 and 1.
    """

    k: int = at_least(1, 2, called="k, the size of a set,")

    @property
    def smallest_group(self) -> int:
        return self.k + 1

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        correct = values > 0
        # By the number of correct answers, exactly: the tables do not depend on data.
        group = values.shape[-1]
        of_correct, of_wrong = np.transpose([self._advantages(number, group) for number in range(group + 1)])
        count = correct.sum(axis=-1, keepdims=True)
        return jnp.where(correct, jnp.float32(of_correct)[count], jnp.float32(of_wrong)[count])

    def _advantages(self, correct: int, group: int) -> tuple[float, float]:
        """Of a correct and of a wrong answer in a group with this many correct ones."""
        wrong = group - correct
        if correct == 0 or wrong < self.k:
            return 0.0, 0.0
        fails = comb(wrong, self.k) / comb(group, self.k)
        others_fail = comb(wrong - 1, self.k - 1) / comb(group - 1, self.k - 1)
        deviation = sqrt(fails * (1.0 - fails))
        return fails / deviation, (fails - others_fail) / deviation


@dataclasses.dataclass(frozen=True)
class PolychromicScore(RolloutPart):
    """What the sets that hold an answer score on average: E[ f(S) | o_g in S ] (arXiv 2509.25424, on a bandit).

        f(S) = (mean reward of S) (distinct outcomes in S) / n,    S uniform over the sets of n answers of the group

    Its mean over the group is E[f(S)], so that the group's mean as baseline gives the advantage that the paper lets all
    members of a set share. In closed form: with m(c) samples of outcome c, a set of n - 1 others lacks c with
    probability C(G-1-m, n-1) / C(G-1, n-1), and so on.
    """

    set_size: int = at_least(2, 2, called="set_size, the answers of a set,")

    @property
    def smallest_group(self) -> int:
        return self.set_size + 1

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        group, size = values.shape[-1], self.set_size
        alike = same_outcome(rollouts.outcome_id)
        multiplicity = alike.sum(axis=-1)

        def others_show(given: int) -> tuple[Array, Array]:
            """Of a set with so many given members: the chance that the rest of it shows the outcome of each sample, if
            no given one does `[P, G]`, and the sum of these chances over the outcomes of the group `[P, 1]`."""
            rest, draws = group - given, size - given
            table = [1.0 - comb(max(rest - m, 0), draws) / comb(rest, draws) for m in range(group + 1)]
            shown = jnp.float32(np.array(table))[multiplicity]
            return shown, (shown / multiplicity).sum(axis=-1, keepdims=True)

        # Distinct outcomes that a set with one sample, and with two, shows on average: the given ones and the rest's.
        shown, distinct = others_show(1)
        with_one = 1.0 + distinct - shown
        shown, distinct = others_show(2)
        own, other = shown[:, :, None], shown[:, None, :]
        with_two = jnp.where(alike, 1.0 + distinct[..., None] - own, 2.0 + distinct[..., None] - own - other)
        pairs = values[:, None, :] * with_two * (1.0 - jnp.eye(group))
        others = (size - 1) / (group - 1) * pairs.sum(axis=-1)
        return (values * with_one + others) / size**2


@dataclasses.dataclass(frozen=True)
class MaximumLikelihood(RolloutPart):
    """A_g = (r_g - mean) / mean of the group: towards the likelihood of success (MaxRL, arXiv 2602.02710).

    Zero where the mean is not positive, and where rewards are equal. With rewards of 0 and 1 and p the chance of
    success, the mean update is w grad p with w = (1 - (1 - p)^(G-1)) / p, which tends to grad log p as G grows.
    `centred=False` is A_g = r_g / mean: the mean over the correct answers alone; then w = (1 - (1 - p)^G) / p.
    """

    centred: bool = True
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mean = values.mean(axis=-1, keepdims=True)
        relative = values / jnp.where(mean > 0, mean, 1.0)
        if not self.centred:
            return jnp.where(mean > 0, relative, 0.0)
        return jnp.where((mean > 0) & ~all_equal(values)[:, None], relative - 1.0, 0.0)
