"""Devices that work apart: each runs the program of one device on its own prompts, and their results are summed once.

Otherwise the compiler divides one program over the devices. It then gathers parameters wherever they are used, which
saves the memory of devices. Those of a CPU have one memory, and each such transfer makes them wait for each other.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec

from ipsrl.distributed.mesh import DATA, platform, prompt_devices

PyTree = Any


def work_apart(prompts: int) -> bool:
    """Whether devices work apart on a number of prompts: those of a CPU do, where nothing but prompts is divided."""
    devices = prompt_devices()
    only_prompts = devices == jax.sharding.get_abstract_mesh().size
    return platform() == "cpu" and only_prompts and devices > 1 and prompts % devices == 0


def apart(function: Callable, prompts: int, in_axes: tuple[int | None, ...], out_axes: int | None) -> Callable:
    """The function itself or, where devices work apart, the same function computed by each for its own prompts.

    Args:
      function: of arrays with any number of prompts and of others, such as parameters.
      prompts: how many there are.
      in_axes: for each argument the axis of prompts in all its leaves; None where they have none.
      out_axes: the same for the result. Without prompts it is made by `sum_apart` and `max_apart`.
    """
    if not work_apart(prompts):
        return function
    return jax.shard_map(function, in_specs=tuple(map(_spec, in_axes)), out_specs=_spec(out_axes), check_vma=False)


def sum_apart(tree: PyTree) -> PyTree:
    """In a function that may work apart: the sum over all devices that do; the tree itself where none do."""
    return jax.lax.psum(tree, axes) if (axes := _axes()) else tree


def max_apart(tree: PyTree) -> PyTree:
    """In a function that may work apart: the largest of all devices that do; the tree itself where none do."""
    return jax.lax.pmax(tree, axes) if (axes := _axes()) else tree  # `pmax` has no derivative, not even over no axis


def _axes() -> tuple[str, ...]:
    return tuple(axis for axis in jax.sharding.get_abstract_mesh().manual_axes if axis == DATA)


def _spec(axis: int | None) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, DATA)
