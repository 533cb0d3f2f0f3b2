"""Many runs in one program: each device computes its own, and none waits for another."""

from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec

RUNS = "runs"


def runs_mesh() -> Mesh:
    """All devices of this process, in one axis that runs lie over."""
    return jax.make_mesh((jax.device_count(),), (RUNS,), axis_types=(AxisType.Auto,))


def filled(runs: int, block: int = 1) -> np.ndarray:
    """The numbers of all runs, and then that of the last again until each device has a whole number of blocks."""
    return np.minimum(np.arange(-(-runs // (_devices() * block)) * _devices() * block), runs - 1)


def over_runs(function: Callable, block: int | None = None) -> Callable:
    """Maps a function of one run over `[S, ...]`, the first axis of every leaf of its arguments and of its results.

    Under the mesh of `runs_mesh` (`jax.set_mesh`) each device takes its share of the runs.

    Args:
      block: how many runs a device computes at a time. With the same number always, a run has the same bits however
        many others there are; else the compiler may add in another order where there are more. None for all at once.

    Raises:
      ValueError: when called, S is no multiple of devices times block: `filled` makes it one.
    """

    def of_device(*arguments):
        if block is None:
            return jax.vmap(function)(*arguments)
        return jax.lax.map(lambda argument: function(*argument), arguments, batch_size=block)

    def of_all(*arguments):
        runs, devices = jax.tree.leaves(arguments)[0].shape[0], _devices()
        if runs % (devices * (block or 1)):
            raise ValueError(f"{runs} runs cannot be divided into blocks of {block or 1} over {devices} devices")
        if devices == 1:
            return of_device(*arguments)
        placed = PartitionSpec(RUNS)
        # A loop may begin with what is the same for all runs, and end with what is not.
        return jax.shard_map(of_device, in_specs=placed, out_specs=placed, check_vma=False)(*arguments)

    return of_all


def _devices() -> int:
    """How many devices runs lie over under the mesh that is set."""
    return jax.sharding.get_abstract_mesh().shape.get(RUNS, 1)
