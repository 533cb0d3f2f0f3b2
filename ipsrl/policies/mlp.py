"""A multi-layer perceptron on features of the state.

Its logits depend only on the observation, and trajectories on small graphs repeat observations. For many rows, the
distinct unpadded rows are found first, and only they are computed. Their number is known only at run time, so they are
computed in as many fixed-size blocks as needed.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from ipsrl.checking.fields import Checked
from ipsrl.distributed.placement import REPLICATED, PlacementRules
from ipsrl.policies.policy import Actions, Cache, Parameters, score_logits
from ipsrl.structures import PolicyScores, Prompts, Trajectories

FEWEST_ROWS = 64
"""Smallest number of rows in a block; blocks of 32 gained nothing on two CPU cores."""
MOST_BLOCKS = 32


@dataclasses.dataclass(frozen=True)
class MLP(Checked):
    """Linear layers with ReLU between them, from features of the observation to logits.

    Parameters: `{"layer_0": {"kernel": [F, H], "bias": [H]}, ...}`, initially LeCun-normal kernels and zero biases.

    Attributes:
      features: hashable function from observations `[...]` int32 to `[..., F]` float32, such as the bound method
        `Hypergrid(...).features`. Two bound methods are equal only if they belong to the same object.
      num_features: F.
      vocabulary_size: V.
      hidden: widths of the hidden layers; an empty tuple makes the logits linear in the features.

    Raises:
      ValueError: a width is not positive.
    """

    optional_fields: ClassVar[frozenset[str]] = frozenset()
    placement_rules: ClassVar[PlacementRules] = REPLICATED

    features: Callable[[Array], Array]
    num_features: int
    vocabulary_size: int
    hidden: tuple[int, ...] = (256, 256)

    def __post_init__(self):
        super().__post_init__()
        if min(self._widths) < 1:
            raise ValueError(f"num_features, hidden and vocabulary_size must be positive, not {self._widths}.")

    @property
    def _widths(self) -> tuple[int, ...]:
        return (self.num_features, *self.hidden, self.vocabulary_size)

    def init(self, key: Array) -> Parameters:
        return nnx.to_pure_dict(nnx.state(_Layers(self._widths, nnx.Rngs(key))))

    def start(self, parameters: Parameters, prompts: Prompts, group_size: int, max_tokens: int) -> Cache:
        """No state is carried: the observation holds everything."""
        return ()

    def step(self, parameters: Parameters, cache: Cache, observations: Array, position: Array) -> tuple[Array, Cache]:
        return self._logits(parameters, observations, jnp.ones_like(observations, bool)), cache

    def score(self, parameters: Parameters, trajectories: Trajectories, temperature: float) -> PolicyScores:
        logits = self._logits(parameters, trajectories.observations, trajectories.token_mask)
        return score_logits(logits, Actions.of(trajectories), temperature)

    def _logits(self, parameters: Parameters, observations: Array, mask: Array) -> Array:
        """`[P, ..., V]`; arbitrary where the mask is False."""
        rows = observations.reshape(observations.shape[0], -1)
        if rows.shape[1] <= FEWEST_ROWS:
            return self._network(parameters, observations)
        # Within each prompt, so that prompts can be on different devices.
        distinct, places, count = jax.vmap(_distinct)(rows, mask.reshape(rows.shape))
        block = max(FEWEST_ROWS, -(-rows.shape[1] // MOST_BLOCKS))
        distinct = jnp.pad(distinct, ((0, 0), (0, -rows.shape[1] % block)))
        blocks = _largest_of_runs(-(-count.max() // block))
        logits = _in_blocks(self._network, block, parameters, distinct, blocks)
        chosen = jnp.take_along_axis(logits, places[..., None], axis=1)
        return chosen.reshape(*observations.shape, self.vocabulary_size)

    def _network(self, parameters: Parameters, observations: Array) -> Array:
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


def _distinct(values: Array, mask: Array) -> tuple[Array, Array, Array]:
    """The masked values `[N]` without repetitions (a few may remain).

    Every value has a slot in a hash table, its remainder. Of two values that share one, the loser is kept separately.

    Returns:
      values `[N]`, of which the first count; each one's place among them (arbitrary outside the mask); how many count.
    """
    number, size = jnp.arange(len(values)), 1 << (2 * len(values) - 1).bit_length()
    remainder = values % size
    owner = jnp.full(size, -1).at[remainder].max(jnp.where(mask, number, -1))
    first = owner[remainder]
    first = jnp.where(values[first] == values, first, number)
    counts = mask & (first == number)
    place = jnp.cumsum(counts) - 1
    distinct = jnp.zeros_like(values).at[jnp.where(counts, place, len(values))].set(values, mode="drop")
    return distinct, jnp.maximum(place[first], 0), counts.sum()


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _in_blocks(network: Callable, block: int, parameters: Parameters, rows: Array, blocks: Array) -> Array:
    """`network(parameters, rows)` `[P, N, V]` for the first `blocks` blocks of the rows `[P, N]`, 0 for the others.

    Only the parameters and the rows are stored for the backward pass, which recomputes each block.
    """

    def compute(number, logits):
        found = network(parameters, jax.lax.dynamic_slice_in_dim(rows, number * block, block, axis=1))
        return jax.lax.dynamic_update_slice_in_dim(logits, found, number * block, axis=1)

    one = jax.eval_shape(network, parameters, rows[:, :1])
    return jax.lax.fori_loop(0, blocks, compute, jnp.zeros((*rows.shape, one.shape[-1]), one.dtype))


def _in_blocks_forward(network, block, parameters, rows, blocks):
    return _in_blocks(network, block, parameters, rows, blocks), (parameters, rows, blocks)


def _in_blocks_backward(network, block, kept, cotangent):
    parameters, rows, blocks = kept

    def accumulate(number, gradient):
        taken, pulled = (
            jax.lax.dynamic_slice_in_dim(leaf, number * block, block, axis=1) for leaf in (rows, cotangent)
        )
        _, pull = jax.vjp(lambda parameters: network(parameters, taken), parameters)
        return jax.tree.map(jnp.add, gradient, *pull(pulled))

    return jax.lax.fori_loop(0, blocks, accumulate, jax.tree.map(jnp.zeros_like, parameters)), None, None


_in_blocks.defvjp(_in_blocks_forward, _in_blocks_backward)


@jax.custom_batching.custom_vmap
def _largest_of_runs(count: Array) -> Array:
    """The count itself; under vmap, the maximum over the mapped runs.

    With different bounds a vmapped loop would compute every block of each run and select.
    """
    return count


@_largest_of_runs.def_vmap
def _largest_of_mapped(axis_size, is_mapped, count):
    return _largest_of_runs(count.max()), False
