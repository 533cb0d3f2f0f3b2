"""shard_map over prompts, for a mesh of CPU devices on its axis `data` alone, which must divide the prompts evenly.

There each device runs the single-device program on its prompts, and results are summed once. On any other mesh the
compiler partitions one program over the devices and gathers parameters wherever they are used, which saves device
memory. The devices of a CPU share one memory, and each such transfer makes them wait for each other.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec

from ipsrl.distributed.mesh import DATA, platform, prompt_devices

PyTree = Any


def works_per_device(prompts: int) -> bool:
    """Whether each device runs its own program: on CPU, if only prompts are sharded, and evenly."""
    devices = prompt_devices()
    only_prompts = devices == jax.sharding.get_abstract_mesh().size
    return platform() == "cpu" and only_prompts and devices > 1 and prompts % devices == 0


def per_device(function: Callable, prompts: int, in_axes: tuple[int | None, ...], out_axes: int | None) -> Callable:
    """The function itself or, if devices run their own programs, its `shard_map` over the prompts.

    Args:
      function: of arrays with any number of prompts and of arrays without prompts, such as parameters.
      prompts: number of prompts.
      in_axes: for each argument the prompt axis of all its leaves; None if they have none.
      out_axes: the same for the result. A result without prompts must use `sum_over_devices` and `max_over_devices`.
    """
    if not works_per_device(prompts):
        return function
    return jax.shard_map(function, in_specs=tuple(map(_spec, in_axes)), out_specs=_spec(out_axes), check_vma=False)


def sum_over_devices(tree: PyTree) -> PyTree:
    """Inside a function of `per_device`: the sum over its devices; the tree itself outside `shard_map`."""
    return jax.lax.psum(tree, axes) if (axes := _axes()) else tree


def max_over_devices(tree: PyTree) -> PyTree:
    """Inside a function of `per_device`: the maximum over its devices; the tree itself outside `shard_map`."""
    return jax.lax.pmax(tree, axes) if (axes := _axes()) else tree  # `pmax` has no derivative, not even over no axis


def _axes() -> tuple[str, ...]:
    return tuple(axis for axis in jax.sharding.get_abstract_mesh().manual_axes if axis == DATA)


def _spec(axis: int | None) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, DATA)
