"""The mean score of the sets that contain an answer: `[P, G]` -> `[P, G]`.

The paper estimates it from random sets of n answers; here it is the exact mean over all sets in the group.
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
    """Average score of the sets that contain an answer: E[ f(S) | o_g in S ] (arXiv 2509.25424, on a bandit).

        f(S) = (mean reward of S) (distinct outcomes in S) / n,    S uniform over the sets of n answers of the group

    Its mean over the group is E[f(S)], so the group mean as baseline gives the advantage that the paper assigns to all
    members of a set. Closed form: with m(c) samples of outcome c, a set of n - 1 others lacks c with probability
    C(G-1-m, n-1) / C(G-1, n-1), and so on.
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
            """For a set with `given` fixed members: `[P, G]`, the probability that the rest of it contains the outcome
            of each sample if no fixed member does, and `[P, 1]`, the sum of these probabilities over the outcomes of
            the group.
            """
            rest, draws = group - given, size - given
            table = [1.0 - comb(max(rest - m, 0), draws) / comb(rest, draws) for m in range(group + 1)]
            shown = jnp.float32(np.array(table))[multiplicity]
            return shown, (shown / multiplicity).sum(axis=-1, keepdims=True)

        # Expected distinct outcomes of a set with one, and with two, fixed members: theirs and those of the rest.
        shown, distinct = others_show(1)
        with_one = 1.0 + distinct - shown
        shown, distinct = others_show(2)
        own, other = shown[:, :, None], shown[:, None, :]
        with_two = jnp.where(alike, 1.0 + distinct[..., None] - own, 2.0 + distinct[..., None] - own - other)
        pairs = values[:, None, :] * with_two * (1.0 - jnp.eye(group))
        others = (size - 1) / (group - 1) * pairs.sum(axis=-1)
        return (values * with_one + others) / size**2
