"""The mesh of devices, and the axes of arrays that are sharded over its axes."""

import math
from typing import Any

import jax
from jax.core import Tracer
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from ipsrl.checking.arguments import checked, shown
from ipsrl.distributed import hosts

PyTree = Any

DATA, MODEL, REPLICA = "data", "model", "replica"

# What is sharded over an axis; nothing over the last, so its devices do the same.
AXES = {DATA: "prompts, and parameters at rest", MODEL: "heads, features and vocabulary", REPLICA: "nothing"}


@checked
def read_mesh(text: str) -> dict[str, int]:
    """The sizes of the axes named in `text`, such as "data:4,model:2"; at most one is -1.

    Raises:
      ValueError: the text is malformed, or an axis is unknown.
    """
    axes: dict[str, int] = {}
    for part in text.split(","):
        name, colon, size = (item.strip() for item in part.partition(":"))
        if not (name.isidentifier() and colon and (size == "-1" or (size.isdecimal() and 0 < int(size[:10]) < 10**9))):
            raise ValueError(
                f"mesh {shown(text)} must be a list of name:size with positive sizes or -1, like 'data:4,model:2'"
            )
        if name not in AXES:
            known = ", ".join(f"{axis} ({what})" for axis, what in AXES.items())
            raise ValueError(f"unknown axis {shown(name)} in mesh {shown(text)}: known axes are {known}")
        if name in axes:
            raise ValueError(f"mesh {shown(text)} names the axis {shown(name)} twice; every axis has one size")
        axes[name] = int(size)
    if (free := list(axes.values()).count(-1)) > 1:
        raise ValueError(f"mesh {shown(text)} has {free} axes of size -1; at most one can take the remaining devices")
    return axes


@checked
def make_mesh(text: str = "data:-1") -> Mesh:
    """A mesh over all devices with the axes named in `text`, such as "data:4,model:2"; `AXES` lists all axes.

    One axis may have size -1: it takes all devices that the other axes leave. The axes are Auto: the compiler inserts
    the communication.

    Raises:
      ValueError: the text is malformed, an axis is unknown, or the sizes do not multiply to the number of devices.
    """
    axes = read_mesh(text)
    devices = jax.device_count()
    fixed = math.prod(size for size in axes.values() if size > 0)
    if devices % fixed or (-1 not in axes.values() and devices != fixed):
        raise ValueError(
            f"the sizes in mesh {shown(text)} multiply to {fixed}, which does not fit the {devices} devices"
        )
    shape = tuple(devices // fixed if size == -1 else size for size in axes.values())
    return jax.make_mesh(shape, tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def own_device_mesh() -> Mesh:
    """A mesh of one device of this process, for work that the other processes do not share."""
    return jax.make_mesh((1,), (REPLICA,), axis_types=(AxisType.Auto,), devices=jax.local_devices()[:1])


def platform() -> str:
    """Platform of the traced program, "cpu", "gpu" or "tpu": that of the mesh that is set, or JAX's default."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    return jax.default_backend() if device is None else device.platform


def is_whole_cpu_program() -> bool:
    """Whether traced code is a CPU's own program, which XLA does not partition over devices."""
    mesh = jax.sharding.get_abstract_mesh()
    return platform() == "cpu" and mesh.size == math.prod(mesh.shape[axis] for axis in mesh.manual_axes)


def check_prompts_divide(prompts: int, mesh: Mesh | AbstractMesh) -> None:
    """Raises ValueError unless the number of prompts is a multiple of the size of the mesh axis "data"."""
    size = mesh.shape.get(DATA, 1)
    if prompts % size:
        raise ValueError(
            f"{prompts} prompts cannot be split evenly over the {size} devices of mesh axis {DATA!r}: "
            f"choose --prompts_per_step so that every micro-batch is a multiple of {size}, or another --mesh"
        )


def shard_prompts(tree: PyTree, mesh: Mesh) -> PyTree:
    """Shards arrays `[P, ...]` by their first axis over the mesh axis "data"; replicates them without such an axis.

    Raises:
      ValueError: P is not a multiple of the size of the axis.
    """
    if DATA not in mesh.axis_names:
        return replicate(tree, mesh)
    for leaf in jax.tree.leaves(tree):
        check_prompts_divide(leaf.shape[0], mesh)
    return hosts.place(tree, NamedSharding(mesh, PartitionSpec(DATA)))


def replicate(tree: PyTree, mesh: Mesh) -> PyTree:
    """Places a copy of every array on every device."""
    return hosts.place(tree, NamedSharding(mesh, PartitionSpec()))


def keep_prompts_sharded(tree: PyTree) -> PyTree:
    """Inside jit: tells the compiler that arrays `[P, ...]` are sharded over the axis "data" of the mesh that is set.

    Arrays created inside a program, such as the zeros that a sampler writes to, would otherwise be replicated on every
    device, with all that depends on them. Without a mesh (`jax.set_mesh`), without that axis, or if P is not a multiple
    of its size, the compiler decides.
    """
    size = prompt_devices()

    def keep(leaf):
        if size == 1 or leaf.shape[0] % size:
            return leaf
        return jax.lax.with_sharding_constraint(leaf, PartitionSpec(DATA))

    return jax.tree.map(keep, tree)


def sharded(tree: PyTree) -> PyTree:
    """Arrays `[P, ...]` sharded on the mesh that is set, by `keep_prompts_sharded` inside jit, else `shard_prompts`."""
    if jax.sharding.get_abstract_mesh().empty:
        return tree
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree)):
        return keep_prompts_sharded(tree)
    return shard_prompts(tree, jax.sharding.get_mesh())


def replicated(tree: PyTree) -> PyTree:
    """Arrays by `replicate` on the mesh that is set; nothing changes inside jit."""
    leaves = jax.tree.leaves(tree)
    if not leaves or jax.sharding.get_abstract_mesh().empty or any(isinstance(leaf, Tracer) for leaf in leaves):
        return tree
    return replicate(tree, jax.sharding.get_mesh())


def gather_prompts(tree: PyTree) -> PyTree:
    """Inside jit: tells the compiler that each device holds these arrays whole, so that a loop over their prompts needs
    no communication in each round.
    """
    if prompt_devices() == 1:
        return tree
    return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, PartitionSpec()), tree)


def prompt_devices() -> int:
    """Number of devices over which the prompts in traced code are sharded: the size of the axis "data" of the mesh that
    is set; 1 without it, or where each device works by itself.
    """
    mesh = jax.sharding.get_abstract_mesh()
    return 1 if DATA in mesh.manual_axes else mesh.shape.get(DATA, 1)
