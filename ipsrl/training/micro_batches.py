"""Micro-batches: parts of a batch of groups that are computed one after the other, to save memory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ipsrl.distributed.per_device import max_over_devices, per_device, sum_over_devices

PyTree = Any


def totals(function: Callable, shared: PyTree, micro_batches: PyTree) -> tuple[PyTree, PyTree]:
    """Accumulates `function` over micro-batches: sums its first output, takes the maximum of its second.

    Args:
      function: (shared, micro-batch) -> (tree to sum, tree to take the maximum of).
      shared: arguments without a prompt axis.
      micro_batches: leaves `[micro_batches, P / micro_batches, ...]`.
    """

    # Traced once, both for its shapes and for the loop.
    function = jax.jit(function)

    def over(shared, micro_batches):
        def accumulate(so_far, micro_batch):
            found = function(shared, micro_batch)
            return tuple(map(jax.tree.map, (jnp.add, jnp.maximum), so_far, found)), None

        sums, maxima = jax.eval_shape(function, shared, jax.tree.map(lambda leaf: leaf[0], micro_batches))
        start = optax.tree.zeros_like(sums), optax.tree.full_like(maxima, -jnp.inf)
        (sums, maxima), _ = jax.lax.scan(accumulate, start, micro_batches)
        return sum_over_devices(sums), max_over_devices(maxima)

    prompts_each = jax.tree.leaves(micro_batches)[0].shape[1]
    return per_device(over, prompts_each, in_axes=(None, 1), out_axes=None)(shared, micro_batches)


def split(tree: PyTree, parts: int) -> PyTree:
    """Leaves `[P, ...]` -> `[parts, P / parts, ...]`: mini-batches or micro-batches.

    Prompts are dealt like cards, so that each device of a mesh that shards prompts holds an equal share of every part.
    """

    def deal(leaf):
        return jnp.moveaxis(leaf.reshape(leaf.shape[0] // parts, parts, *leaf.shape[1:]), 1, 0)

    return jax.tree.map(deal, tree)


def join(tree: PyTree) -> PyTree:
    """Undoes `split`."""
    return jax.tree.map(
        lambda leaf: jnp.moveaxis(leaf, 0, 1).reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), tree
    )
