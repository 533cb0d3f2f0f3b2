"""The keys of fresh parameters, and those of one layer alone."""

import functools
from collections.abc import Callable
from typing import Any

import jax
from flax import nnx
from jax import Array

from ipsrl.policies.policy import Parameters


@functools.cache
def graph(network: Callable[..., nnx.Module], policy: Any) -> nnx.GraphDef:
    """The structure of a policy's modules without their arrays, cached so that tracing does not rebuild them."""
    return nnx.graphdef(nnx.eval_shape(lambda: network(policy, Keys(jax.random.key(0)))))


class Keys:
    """The keys that `nnx.Rngs` gives one after the other, in time that does not grow with their number.

    Its counter is an array, and JAX looks through the whole trace whenever it changes.
    """

    def __init__(self, key: Array, given: int | Array = 0):
        self._key, self.given = key, given

    def next(self) -> Array:
        self.given += 1
        return jax.random.fold_in(self._key, self.given - 1)


def layer_parameters(layer: Callable[[Keys], nnx.Module], key: Array, number: int | Array) -> Parameters:
    """The parameters of one layer of a network made with `Keys(key)`; its number may be traced.

    The network takes its first key for the embeddings, then makes the layers, which all take as many.
    """
    keys = Keys(key)
    jax.eval_shape(lambda: nnx.state(layer(keys)))
    return nnx.to_pure_dict(nnx.state(layer(Keys(key, 1 + number * keys.given))))
