"""Rewards standardised by statistics of the group and of all earlier groups of the prompt: `[P, G]` -> `[P, G]`."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.objective import RolloutPart, all_equal
from ipsrl.structures import Rollouts, Sizes, masked_sum


@dataclasses.dataclass(frozen=True)
class SmoothedStandardisation(RolloutPart):
    """The smaller, in absolute value, of two mixtures of A_new and A_total: DCPO (arXiv 2509.02333).

        A_new = (r - mean) / std of the group              A_total = (r - mean) / std of all the prompt's groups so far
        (1 - 1/i) A_new + A_total / i                      A_new / i + (1 - 1/i) A_total

    i counts the prompt's groups, those of this batch included. A group with equal rewards has A_new = 0 and gets
    A_total / i, so it still learns if others had other rewards; if the prompt has a single group so far, both are
    GRPO's. Groups have equal weights in the total, whose variance is the mean of theirs plus that of their means.
    `unbiased` divides by G - 1.
    """

    unbiased: bool = False
    smallest_group: ClassVar[int] = 2

    def init(self, sizes: Sizes) -> Any:
        """Number of groups, mean and variance so far, each `[num_prompts]`."""
        return {name: jnp.zeros(sizes.num_prompts) for name in ("groups", "mean", "variance")}

    def update_state(self, values: Array, rollouts: Rollouts, state: Any) -> tuple[Array, Any]:
        prompts = rollouts.prompt_index
        before = {name: table[prompts] for name, table in state.items()}
        same_prompt = rollouts.same_prompt
        here = same_prompt.sum(axis=-1)
        groups = before["groups"] + here

        def over_groups(statistic: Array) -> Array:
            return masked_sum(statistic, same_prompt, axis=-1) / here

        equal = all_equal(values)
        mean = jnp.where(equal, values[:, 0], values.mean(axis=-1))
        variance = jnp.where(equal, 0.0, values.var(axis=-1, ddof=1 if self.unbiased else 0))
        # Deviations from a mean of the same rewards, so that rewards which never change have no variance.
        origin = jnp.where(before["groups"] > 0, before["mean"], over_groups(mean))
        deviates = ~all_equal(jnp.stack([mean, origin], axis=-1))
        deviation = jnp.where(deviates, mean - origin, 0.0)
        moved = over_groups(deviation) * here / groups
        squares = here * over_groups(variance + deviation**2)
        total = {
            "groups": groups,
            "mean": origin + moved,
            "variance": (before["groups"] * before["variance"] + squares) / groups - moved**2,
        }

        def standardised(mean: Array, variance: Array) -> Array:
            varies = variance > (jnp.finfo(values.dtype).eps * mean) ** 2
            scale = jnp.sqrt(jnp.where(varies, variance, 1.0))
            return jnp.where(varies[:, None], (values - mean[:, None]) / scale[:, None], 0.0)

        of_group, of_all = standardised(mean, variance), standardised(total["mean"], total["variance"])
        share = 1.0 / groups[:, None]
        mostly_group, mostly_all = ((1 - share) * a + share * b for a, b in ((of_group, of_all), (of_all, of_group)))
        smaller = jnp.where(jnp.abs(mostly_group) < jnp.abs(mostly_all), mostly_group, mostly_all)
        return smaller, {name: table.at[prompts].set(total[name]) for name, table in state.items()}
