"""An advantage for the control token, for having chosen the better of two modes: `[P, G, T]` -> `[P, G, T]`."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import finite, non_negative
from ipsrl.objectives.advantages.baselines import GroupMeanStd
from ipsrl.objectives.estimators.subgroups import thinks
from ipsrl.objectives.objective import RolloutPart, all_equal
from ipsrl.structures import Rollouts, control_token, masked_sum


@dataclasses.dataclass(frozen=True)
class PreferredMode(RolloutPart):
    """Adds to the control token's advantage whether its mode did better (HGPO, arXiv 2505.14631).

        A_g0 + alpha (m_g - mean) / std,      m_g = 1 where the mode of g is argmax { R_think, R_other + delta }

    R are the mean rewards of the modes in the group: with half of the group in each mode the term is +-alpha. Nothing
    is added if a group has a single mode, or if the two sides tie (our reading).

    Attributes:
      think_token: control token of an answer in thinking mode, see `ipsrl.structures.control_token`.
      delta: head start of the other mode, in units of reward.
      alpha: weight of the term.
    """

    think_token: int = 0
    delta: float = finite(0.2)
    alpha: float = non_negative(1.0)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        mode = thinks(rollouts, self.think_token)

        def mean_reward(members):
            return masked_sum(rollouts.rewards, members, axis=-1) / jnp.maximum(members.sum(axis=-1), 1)

        sides = jnp.stack([mean_reward(mode), mean_reward(~mode) + self.delta], axis=-1)
        comparable = mode.any(axis=-1) & (~mode).any(axis=-1) & ~all_equal(sides)
        preferred = comparable[:, None] & (mode == (sides[:, :1] > sides[:, 1:]))
        between_modes = GroupMeanStd()(preferred.astype(jnp.float32), rollouts)
        return values + jnp.where(control_token(rollouts.token_mask), self.alpha * between_modes[..., None], 0.0)
