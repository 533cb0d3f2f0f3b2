"""Many runs in one program: each device computes its own, and none waits for another."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, PartitionSpec

PyTree = Any

RUNS = "runs"


def runs_mesh() -> Mesh:
    """All devices of this process, in one axis that runs lie over."""
    return jax.make_mesh((jax.device_count(),), (RUNS,), axis_types=(AxisType.Auto,))


def over_runs(function: Callable, block: int | None = None) -> Callable:
    """Maps a function of one run over `[S, ...]`, the first axis of every leaf of its arguments and of its results.

    Under the mesh of `runs_mesh` (`jax.set_mesh`) each device takes its share of the runs. Where they cannot be divided
    evenly, the last one is computed more than once.

    Args:
      block: how many runs a device computes at a time, also where there are fewer. A run then has the same bits however
        many others there are; else the compiler may add in another order where there are more. None for all at once.
    """

    def of_device(*arguments):
        if block is None:
            return jax.vmap(function)(*arguments)
        return jax.lax.map(lambda argument: function(*argument), arguments, batch_size=block)

    def of_all(*arguments):
        runs = jax.tree.leaves(arguments)[0].shape[0]
        devices = jax.sharding.get_abstract_mesh().shape.get(RUNS, 1)
        surplus = -runs % (devices * (block or 1))
        filled = jax.tree.map(
            lambda leaf: jnp.pad(leaf, [(0, surplus)] + [(0, 0)] * (leaf.ndim - 1), "edge"), arguments
        )
        divided = of_device
        if devices > 1:
            lies = PartitionSpec(RUNS)
            # A loop may begin with what is the same for all runs, and end with what is not.
            divided = jax.shard_map(of_device, in_specs=lies, out_specs=lies, check_vma=False)
        return jax.tree.map(lambda leaf: leaf[:runs], divided(*filled))

    return of_all
