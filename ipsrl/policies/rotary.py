"""Rotary positions, and the scalings by which checkpoints extend them to texts longer than their training texts."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import Checked, above, at_least, finite


@dataclasses.dataclass(frozen=True)
class LinearScaling(Checked):
    """Position interpolation (arXiv 2306.15595): every frequency divided by `factor`.

    Raises:
      ValueError: `factor` is below 1.
    """

    factor: float = at_least(1, called="factor of a rotary scaling")

    def __call__(self, frequencies: Array, theta: float) -> Array:
        return frequencies / self.factor


@dataclasses.dataclass(frozen=True)
class Llama3Scaling(Checked):
    """The scaling of Llama 3.1 (arXiv 2407.21783): stretches long wavelengths and keeps short ones.

    Frequencies with fewer than `low_frequency_factor` turns in `original_length` tokens are divided by `factor`, those
    with more than `high_frequency_factor` turns are kept, and those between are interpolated by their turns.

    Raises:
      ValueError: `factor` or `original_length` is below 1, or the numbers of turns are not in order.
    """

    factor: float = at_least(1, called="factor of a rotary scaling")
    low_frequency_factor: float = finite()
    high_frequency_factor: float = finite()
    original_length: int = at_least(1)

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.low_frequency_factor < self.high_frequency_factor:
            raise ValueError(
                f"low_frequency_factor {self.low_frequency_factor} must be positive and below high_frequency_factor "
                f"{self.high_frequency_factor}."
            )

    def __call__(self, frequencies: Array, theta: float) -> Array:
        turns = self.original_length * frequencies / (2 * math.pi)
        low, high = self.low_frequency_factor, self.high_frequency_factor
        kept = jnp.clip((turns - low) / (high - low), 0.0, 1.0)
        return (1 - kept) * frequencies / self.factor + kept * frequencies


@dataclasses.dataclass(frozen=True)
class YarnScaling(Checked):
    """YaRN (arXiv 2309.00071): frequencies interpolated by their index, and sharper attention.

    The index i at which a frequency turns b times in `original_length` tokens is
    d ln(original_length / (2 pi b)) / (2 ln theta). Frequencies before that of `beta_fast` turns are kept, those after
    that of `beta_slow` turns are divided by `factor`, and between them the share falls linearly with the index.

    Attributes:
      factor: ratio of the longest supported text to `original_length`.
      original_length: tokens of the training texts.
      beta_fast, beta_slow: numbers of turns between which frequencies are interpolated.
      attention_factor: multiplies rotated queries and keys; None for the paper's 0.1 ln(factor) + 1.
      truncate: whether the two indices are rounded outwards.

    Raises:
      ValueError: `factor` or `original_length` is below 1, or `beta_slow` is not positive and below `beta_fast`.
    """

    factor: float = at_least(1, called="factor of a rotary scaling")
    original_length: int = at_least(1)
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.beta_slow < self.beta_fast:
            raise ValueError(f"beta_slow {self.beta_slow} must be positive and below beta_fast {self.beta_fast}.")

    @property
    def magnitude(self) -> float:
        """Factor of rotated queries and keys."""
        return 0.1 * math.log(self.factor) + 1 if self.attention_factor is None else self.attention_factor

    def __call__(self, frequencies: Array, theta: float) -> Array:
        half = len(frequencies)

        def index(turns: float) -> float:
            return half * math.log(self.original_length / (turns * 2 * math.pi)) / math.log(theta)

        first, last = index(self.beta_fast), index(self.beta_slow)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * half - 1)
        # The ramp must have a positive width.
        width = last - first if last != first else 0.001
        stretched = jnp.clip((jnp.arange(half) - first) / width, 0.0, 1.0)
        return stretched * frequencies / self.factor + (1 - stretched) * frequencies


Scaling = LinearScaling | Llama3Scaling | YarnScaling


@dataclasses.dataclass(frozen=True)
class Rotary(Checked):
    """Rotary position embedding (arXiv 2104.09864), with the two halves of a vector paired as in Llama.

    The pair (x_i, x_{i + d/2}) is rotated by the angle position * theta^(-2i/d): products depend on differences alone.

    Attributes:
      theta: base of the wavelengths.
      scaling: scaling of the wavelengths; None for none.

    Raises:
      ValueError: `theta` is not above 1.
    """

    theta: float = above(1, 10000.0, called="theta, the base of the rotary wavelengths,")
    scaling: Scaling | None = None

    def __call__(self, vectors: Array, positions: Array, most: int) -> Array:
        """`vectors` `[P, N, heads, d]`, d even, rotated by their `positions` `[P, N]`, in float32.

        Args:
          most: an upper bound on all positions; -1 marks padding, which is rotated too.
        """
        half = vectors.shape[-1] // 2
        frequencies = self.theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
        if self.scaling is not None:
            frequencies = self.scaling(frequencies, self.theta)
        # A table by position: XLA on CPU would compute both functions again for each head and each use.
        angles = jnp.arange(most)[:, None] * jnp.tile(frequencies, 2)
        cosine, sine = (table[positions][:, :, None] for table in (jnp.cos(angles), jnp.sin(angles)))
        if isinstance(self.scaling, YarnScaling):
            cosine, sine = cosine * self.scaling.magnitude, sine * self.scaling.magnitude
        # The halves are swapped by an exact product with ones and minus ones: concatenating bfloat16 takes twice as
        # long.
        turned = jnp.dot(
            vectors, _quarter_turn(half).astype(vectors.dtype), precision="highest", preferred_element_type=jnp.float32
        )
        return (vectors * cosine + turned * sine).astype(vectors.dtype)


def _quarter_turn(half: int) -> np.ndarray:
    """`[2 half, 2 half]`, maps (x, y) to (-y, x)."""
    identity, zero = np.eye(half, dtype=np.float32), np.zeros((half, half), np.float32)
    return np.block([[zero, identity], [-identity, zero]])
