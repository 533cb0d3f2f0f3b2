"""Drops advantages by sign to keep the policy's entropy in a band: `[P, G, T]` -> `[P, G, T]`."""

import dataclasses
import math

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import at_least
from ipsrl.objectives.estimators.mean_entropy import mean_entropy
from ipsrl.objectives.objective import Metrics, RolloutPart
from ipsrl.structures import Rollouts, Sizes


@dataclasses.dataclass(frozen=True)
class EntropyBand(RolloutPart):
    """Keeps the answers that move the entropy back into a band, which falls during training (Entrocraft).

        above the band only A >= 0 is kept, below it only A <= 0, inside it everything (arXiv 2604.26326);
        the band moves linearly from (low_start, high_start) to (low_end, high_end) in `steps` batches

    All other advantages become zero.
    """

    steps: int = at_least(1)
    low_start: float = 0.6
    high_start: float = 0.7
    low_end: float = 0.1
    high_end: float = 0.2

    def __post_init__(self):
        super().__post_init__()
        for low, high in ((self.low_start, self.high_start), (self.low_end, self.high_end)):
            if not 0.0 <= low <= high < math.inf:
                raise ValueError(f"the band is ({low}, {high}): two entropies in nats, the first not above")

    def init(self, sizes: Sizes) -> Array:
        """Number of batches so far, `[]` int32."""
        return jnp.int32(0)

    def update_state(self, values: Array, rollouts: Rollouts, state: Array) -> tuple[Array, Array]:
        low, high = self.band(state)
        entropy = mean_entropy(rollouts)
        kept_sign = jnp.where(entropy > high, 1.0, jnp.where(entropy < low, -1.0, 0.0))
        return jnp.where(kept_sign * values >= 0, values, 0.0), state + 1

    def state_metrics(self, state: Array) -> Metrics:
        """The band of this batch."""
        low, high = self.band(state - 1)
        return {"entropy_band_low": (low, jnp.float32(1)), "entropy_band_high": (high, jnp.float32(1))}

    def band(self, batch: Array) -> tuple[Array, Array]:
        """Limits of the band in nats for a batch, counted from 0."""
        progress = jnp.minimum(batch / self.steps, 1.0)
        low = self.low_start + progress * (self.low_end - self.low_start)
        return low, self.high_start + progress * (self.high_end - self.high_start)
