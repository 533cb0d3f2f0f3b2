"""Placement of parameters: ordered rules, from patterns of their paths to axes of the mesh.

A parameter has two layouts. At rest it is sharded over the axes `data` and `model`, and so are its gradient and its
optimiser state: no device holds more than its share (ZeRO, arXiv 1910.02054). In use it is replicated along `data`,
because every device has its own prompts, and sharded only along `model`, by heads and features (Megatron, arXiv
1909.08053). The compiler inserts the communication.

In a train step it gathers a matrix where it is used; on a mesh whose devices run their own programs (see `per_device`)
it gathers all of them at once. A sampler uses every matrix once for each token, with few tokens at a time: `gathered`
makes the second layout once for a whole rollout, in the dtype of the computation.
"""

import collections
import dataclasses
import math
import re
from typing import Any

import jax
import optax
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from ipsrl.distributed import hosts
from ipsrl.distributed.mesh import DATA, MODEL, platform
from ipsrl.text_table import aligned

PyTree = Any

# Smaller leaves are replicated along `data`: transferring 256 KiB takes less time than starting a transfer.
SMALLEST_SHARED = 2**16


@dataclasses.dataclass(frozen=True)
class PlacementRule:
    """Placement of the leaves whose whole path matches.

    Attributes:
      pattern: regular expression; paths are those of `leaf_name`.
      spec: for each dimension of a leaf the mesh axis it is sharded along. Axes that a mesh does not have are ignored.
      units: name and number of units that must not be split, such as ("num_heads", 8): the axis `model` must divide it.
      dtype: the type in which computations use the leaf; None for its own.
    """

    pattern: str
    spec: PartitionSpec
    units: tuple[str, int] | None = None
    dtype: str | None = None


PlacementRules = tuple[PlacementRule, ...]

REPLICATED: PlacementRules = (PlacementRule(".*", PartitionSpec()),)
"""The rules of policies too small to be sharded."""


@dataclasses.dataclass(frozen=True)
class Placement:
    """Result of a rule for one leaf on one mesh.

    Attributes:
      rule: the first that matches; None for leaves that belong to no parameter.
      spec: of the leaf at rest.
      remark: why an axis of the rule's `spec` is not used; "" if all are.
    """

    rule: PlacementRule | None
    spec: PartitionSpec
    remark: str = ""


NO_PARAMETER = Placement(None, PartitionSpec())


def leaf_name(path: Any) -> str:
    """The path of a leaf as text, such as "layers/0/self_attn/q_proj/kernel"."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def check_units(rules: PlacementRules, mesh: Mesh | AbstractMesh) -> None:
    """Raises ValueError if the axis `model` of a mesh would split a unit of a rule."""
    devices = mesh.shape.get(MODEL, 1)
    for name, number in dict.fromkeys(rule.units for rule in rules if rule.units is not None):
        if number % devices:
            fitting = ", ".join(str(size) for size in range(1, number + 1) if number % size == 0)
            raise ValueError(
                f"{name} is {number}, which cannot be split evenly over the {devices} devices of mesh axis {MODEL!r}: "
                f"choose a --mesh with {MODEL} one of {fitting}, and give the other devices to {DATA!r}"
            )


def check_placement_rules(rules: PlacementRules, *trees: PyTree) -> None:
    """Raises ValueError if a leaf of the trees matches no rule, or if a rule is the first match of no leaf in any."""
    used = set()
    for tree in trees:
        used |= {_first_match(rules, path).pattern for path, _ in jax.tree.leaves_with_path(tree)}
    for rule in rules:
        if rule.pattern not in used:
            raise ValueError(
                f"the placement rule {rule.pattern!r} places no parameter: remove or correct it; a path looks like "
                "'layers/0/self_attn/q_proj/kernel', and earlier rules come first"
            )


def placements(rules: PlacementRules, tree: PyTree, mesh: Mesh | AbstractMesh) -> PyTree:
    """The `Placement` of each leaf of a tree of arrays or `jax.ShapeDtypeStruct`, by the first rule that matches.

    A dimension that is not divisible by the devices of an axis is replicated along it, and so is a small leaf along
    `data`.

    Raises:
      ValueError: a leaf matches no rule, or has fewer dimensions than its rule.
    """
    return jax.tree.map_with_path(lambda path, leaf: _placement(_first_match(rules, path), leaf.shape, mesh), tree)


def _first_match(rules: PlacementRules, path: tuple[Any, ...]) -> PlacementRule:
    name = leaf_name(path)
    for rule in rules:
        if re.fullmatch(rule.pattern, name):
            return rule
    raise ValueError(f"no placement rule matches the parameter {name!r}: end the rules with one for '.*'")


def _placement(rule: PlacementRule, shape: tuple[int, ...], mesh: Mesh | AbstractMesh) -> Placement:
    if len(rule.spec) > len(shape):
        raise ValueError(
            f"the placement rule {rule.pattern!r} has {len(rule.spec)} axes, but matches a parameter of shape {shape}"
        )
    spec, remarks = [], []
    for size, axis in zip(shape, rule.spec, strict=False):
        devices = mesh.shape.get(axis, 1)
        reason = ""
        if axis == DATA and math.prod(shape) < SMALLEST_SHARED:
            reason = "small"
        elif size % devices:
            reason = f"{size} is not a multiple of {devices}"
        if devices > 1 and reason:
            remarks.append(f"replicated along {axis}: {reason}")
        spec.append(axis if devices > 1 and not reason else None)
    return Placement(rule, PartitionSpec(*spec), "; ".join(remarks))


def follow(optimizer: optax.GradientTransformation, placed: PyTree, optimizer_state: optax.OptState) -> PyTree:
    """Placements of an optimiser's state: its moments follow their parameters, `placed`; the rest is replicated."""
    return optax.tree.map_params(
        optimizer,
        lambda _, placement: placement,
        optimizer_state,
        placed,
        transform_non_params=lambda _: NO_PARAMETER,
    )


def place(tree: PyTree, placed: PyTree, mesh: Mesh) -> PyTree:
    """Moves arrays to their placements; values that only this process holds must be the same on every host."""
    return jax.tree.map(hosts.place, tree, shardings(placed, mesh))


def shardings(placed: PyTree, mesh: Mesh) -> PyTree:
    """The tree of `NamedSharding` of these placements: to restore into, or to compile ahead of time."""
    return jax.tree.map(lambda placement: NamedSharding(mesh, placement.spec), placed)


def constrain(tree: PyTree, placed: PyTree) -> PyTree:
    """Inside jit: constrains the leaves of a tree to their placements. If all are replicated, the compiler decides.

    For a gradient that is summed over devices, each device then receives only its share of the sum. Where devices run
    their own programs, each has whole leaves.
    """
    if jax.sharding.get_abstract_mesh().manual_axes or not any_is_sharded(placed):
        return tree
    return jax.tree.map(lambda placement, leaf: jax.lax.with_sharding_constraint(leaf, placement.spec), placed, tree)


def gathered(parameters: PyTree, rules: PlacementRules) -> PyTree:
    """Inside jit: parameters in the layout of use, for programs that use each of them many times.

    Leaves are converted to the dtype of the computation, and those sharded over `data` are then gathered; no value of
    the computation changes. This takes one copy in that dtype, 1 / model of it on each device, until the program ends.
    A CPU converts only what it gathers: it multiplies as fast by matrices that it has to convert.
    """

    def gather(placement, leaf):
        if DATA not in placement.spec and platform() == "cpu":
            return leaf
        # Convert first: the compiler might convert after the gather, and transfer twice the bytes.
        leaf = leaf.astype(placement.rule.dtype or leaf.dtype)
        if DATA not in placement.spec:
            return leaf
        leaf = jax.lax.with_sharding_constraint(leaf, placement.spec)
        in_use = PartitionSpec(*(None if axis == DATA else axis for axis in placement.spec))
        return jax.lax.with_sharding_constraint(leaf, in_use)

    return jax.tree.map(gather, placements(rules, parameters, jax.sharding.get_abstract_mesh()), parameters)


def table(placed: PyTree, tree: PyTree, mesh: Mesh) -> str:
    """The placements of a tree as a text table: for each rule and its result, leaves and bytes, largest first.

    The tree is of arrays or `jax.ShapeDtypeStruct`, such as a whole train state.
    """
    rows: dict[Placement, list[int]] = collections.defaultdict(lambda: [0, 0, 0])
    for placement, leaf in zip(jax.tree.leaves(placed), jax.tree.leaves(tree), strict=True):
        own = NamedSharding(mesh, placement.spec).shard_shape(leaf.shape)
        added = (1, leaf.size * leaf.dtype.itemsize, math.prod(own) * leaf.dtype.itemsize)
        rows[placement] = [old + new for old, new in zip(rows[placement], added, strict=True)]
    total = [sum(column) for column in zip(*rows.values(), strict=True)]

    cells = [["placement", "sharded along", "leaves", "bytes", "per device", ""]]
    for placement, numbers in sorted(rows.items(), key=lambda row: -row[1][1]):
        pattern = placement.rule.pattern if placement.rule else "(no parameter)"
        cells.append([pattern, _axes(placement.spec), *(f"{number:,}" for number in numbers), placement.remark])
    axes = ",".join(f"{name}:{size}" for name, size in mesh.shape.items())
    cells.append([f"mesh {axes}", "", *(f"{number:,}" for number in total), ""])
    return aligned(cells, right=(2, 3, 4))


def any_is_sharded(placed: PyTree) -> bool:
    """Whether a leaf is sharded over several devices."""
    return any(axis is not None for placement in jax.tree.leaves(placed) for axis in placement.spec)


def _axes(spec: PartitionSpec) -> str:
    return ", ".join(axis or "-" for axis in spec) if any(spec) else "replicated"
