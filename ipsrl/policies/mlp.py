"""A multi-layer perceptron on features of the state."""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
from flax import nnx
from jax import Array

from ipsrl.distributed.placement import WHOLE, Rules
from ipsrl.policies.policy import Actions, Cache, Parameters, score_logits
from ipsrl.structures import PolicyScores, Prompts, Trajectories


@dataclasses.dataclass(frozen=True)
class MLP:
    """Linear layers with ReLU between them, from features of the observation to logits.

    Parameters: `{"layer_0": {"kernel": [F, H], "bias": [H]}, ...}`, LeCun-normal kernels and zero biases at the start.

    Attributes:
      features: hashable function from observations `[...]` int32 to `[..., F]` float32, such as the bound method
        `Hypergrid(...).features`. Two bound methods are equal only when they belong to the same object.
      num_features: F.
      vocabulary_size: V.
      hidden: widths of the hidden layers; none makes the logits linear in the features.

    Raises:
      ValueError: a width is not positive.
    """

    optional_fields: ClassVar[frozenset[str]] = frozenset()
    placement_rules: ClassVar[Rules] = WHOLE

    features: Callable[[Array], Array]
    num_features: int
    vocabulary_size: int
    hidden: tuple[int, ...] = (256, 256)

    def __post_init__(self):
        if min(self._widths) < 1:
            raise ValueError(f"num_features, hidden and vocabulary_size must be positive, not {self._widths}.")

    @property
    def _widths(self) -> tuple[int, ...]:
        return (self.num_features, *self.hidden, self.vocabulary_size)

    def init(self, key: Array) -> Parameters:
        return nnx.to_pure_dict(nnx.state(_Layers(self._widths, nnx.Rngs(key))))

    def start(self, parameters: Parameters, prompts: Prompts, group_size: int, max_tokens: int) -> Cache:
        """Nothing is carried: the observation tells everything."""
        return ()

    def step(self, parameters: Parameters, cache: Cache, observations: Array, position: Array) -> tuple[Array, Cache]:
        return self._logits(parameters, observations), cache

    def score(self, parameters: Parameters, trajectories: Trajectories, temperature: float) -> PolicyScores:
        return score_logits(self._logits(parameters, trajectories.observations), Actions.of(trajectories), temperature)

    def _logits(self, parameters: Parameters, observations: Array) -> Array:
        layers = nnx.merge(_graphdef(self._widths), parameters)
        return layers(self.features(observations)).astype(jnp.float32)


class _Layers(nnx.Module):
    def __init__(self, widths: tuple[int, ...], rngs: nnx.Rngs):
        self.depth = len(widths) - 1
        for number, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
            setattr(self, f"layer_{number}", nnx.Linear(fan_in, fan_out, rngs=rngs))

    def __call__(self, x: Array) -> Array:
        for number in range(self.depth - 1):
            x = nnx.relu(getattr(self, f"layer_{number}")(x))
        return getattr(self, f"layer_{self.depth - 1}")(x)


@functools.cache
def _graphdef(widths: tuple[int, ...]) -> nnx.GraphDef:
    return nnx.graphdef(nnx.eval_shape(lambda: _Layers(widths, nnx.Rngs(0))))
