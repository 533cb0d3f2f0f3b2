"""An advantage over what a prompt earned in earlier batches: `[P, G]` -> `[P, G]`."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import below_one
from ipsrl.objectives.objective import RolloutPart, rounding
from ipsrl.structures import Rollouts, Sizes, masked_sum


@dataclasses.dataclass(frozen=True)
class TrackedValue(RolloutPart):
    """A_g = (r_g - v) / std of r - v over the batch, minus its mean: SPO (arXiv 2509.13232).

        v = S / N,    N <- decay N + answers to the prompt in the batch,    S <- decay S + the sum of their rewards

    v is that of the batches before; a prompt that is met for the first time is compared with its own mean in this
    batch. Our reading: the paper adapts the decay to the divergence between the policies of two visits, and starts
    from answers sampled beforehand.
    """

    decay: float = below_one(0.9)

    def init(self, sizes: Sizes) -> Array:
        """N and S, `[num_prompts, 2]`."""
        return jnp.zeros((sizes.num_prompts, 2))

    def update_state(self, values: Array, rollouts: Rollouts, state: Array) -> tuple[Array, Array]:
        # All groups of a prompt share its value and compute the same new state.
        same_prompt = rollouts.same_prompt
        answers = same_prompt.sum(axis=-1) * values.shape[-1]
        here = jnp.stack([answers, masked_sum(values.sum(axis=-1), same_prompt, axis=-1)], axis=-1)
        before = state[rollouts.prompt_index]
        number, total = jnp.where(before[:, :1] > 0, before, here).T
        advantages = values - (total / number)[:, None]
        std = advantages.std()
        silent = (advantages.max() - advantages.min() <= rounding(values, axis=None)) | (std == 0)
        whitened = jnp.where(silent, 0.0, (advantages - advantages.mean()) / jnp.where(silent, 1.0, std))
        return whitened, state.at[rollouts.prompt_index].set(self.decay * before + here)
