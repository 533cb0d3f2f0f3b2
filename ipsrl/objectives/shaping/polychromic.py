"""The mean score of the sets that hold an answer: `[P, G]` -> `[P, G]`.

What the paper estimates from random sets of n answers is here the exact mean over all sets that the group holds.
"""

import dataclasses
from math import comb

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.fields import at_least
from ipsrl.objectives.estimators.frequency import same_outcome
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts


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
