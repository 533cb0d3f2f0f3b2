"""Many runs in one program: each device computes its own runs, and waits for no other."""

from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec

RUNS = "runs"


def runs_mesh() -> Mesh:
    """All devices of this process, in one axis that runs are sharded over."""
    return jax.make_mesh((jax.device_count(),), (RUNS,), axis_types=(AxisType.Auto,))


def filled(runs: int, block: int = 1) -> np.ndarray:
    """The indices of all runs, filled up with the last until each device has a whole number of blocks."""
    return np.minimum(np.arange(-(-runs // (_devices() * block)) * _devices() * block), runs - 1)


def over_runs(function: Callable, block: int | None = None) -> Callable:
    """Maps a function of one run over `[S, ...]`, the first axis of every leaf of its arguments and of its results.

    Under the mesh of `runs_mesh` (`jax.set_mesh`) each device takes its share of the runs.

    Args:
      block: number of runs that a device computes at a time. With a fixed block, a run is bitwise independent of the
        number of other runs; otherwise the compiler may add in another order. None for all at once.

    Raises:
      ValueError: when called, S is not a multiple of devices times block; `filled` makes it one.
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
        # The initial carry may be the same for all runs, while the final one differs.
        return jax.shard_map(of_device, in_specs=placed, out_specs=placed, check_vma=False)(*arguments)

    return of_all


def _devices() -> int:
    """Number of devices that runs are sharded over under the mesh that is set."""
    return jax.sharding.get_abstract_mesh().shape.get(RUNS, 1)
