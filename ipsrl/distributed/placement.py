"""Where parameters are placed: ordered rules, from patterns of their paths to axes of the mesh.

A parameter has two layouts. At rest it is sharded over the axes `data` and `model`, and so are its gradient and all
that an optimiser keeps of it: no device holds more than its share (ZeRO, arXiv 1910.02054). In use it is replicated
along `data`, because every device has prompts of its own, and sharded along `model` only, by heads and features
(Megatron, arXiv 1909.08053). The compiler inserts what communication follows.

In a train step it gathers a matrix where it is used. A sampler uses every matrix once for each token, and its tokens
are few: `gathered` makes the second layout once for a whole rollout, in the type that is computed in.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

import jax
import optax
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from ipsrl.distributed import hosts
from ipsrl.distributed.mesh import DATA, MODEL

PyTree = Any

# Leaves of fewer elements are replicated along `data`: a transfer of 256 KiB takes less time than its start.
SMALLEST_SHARED = 2**16


@dataclasses.dataclass(frozen=True)
class PlacementRule:
    """Where the leaves are placed whose whole path matches.

    Attributes:
      pattern: regular expression; paths are those of `stored_tree.named_leaves`, such as
        "layers/0/self_attn/q_proj/kernel".
      spec: for each dimension of a leaf the axis of the mesh that it is sharded along. Axes that a mesh does not have
        are ignored.
      units: name and number of what must not be sharded, such as ("num_heads", 8): the axis `model` divides the number.
      dtype: the type in which the leaf is computed with; None for its own.
    """

    pattern: str
    spec: PartitionSpec
    units: tuple[str, int] | None = None
    dtype: str | None = None


PlacementRules = tuple[PlacementRule, ...]

REPLICATED: PlacementRules = (PlacementRule(".*", PartitionSpec()),)
"""The rules of policies that are too small to be sharded."""


@dataclasses.dataclass(frozen=True)
class Placement:
    """What a rule comes to for one leaf on one mesh.

    Attributes:
      rule: the first that matches; None for what follows no parameter.
      spec: of the leaf at rest.
      remark: why the rule's own `spec` is not followed along some axis; "" where it is.
    """

    rule: PlacementRule | None
    spec: PartitionSpec
    remark: str = ""


NO_PARAMETER = Placement(None, PartitionSpec())


def check_units(rules: PlacementRules, mesh: Mesh) -> None:
    """Raises ValueError where the axis `model` of a mesh would shard a unit of a rule."""
    devices = mesh.shape.get(MODEL, 1)
    for name, number in dict.fromkeys(rule.units for rule in rules if rule.units is not None):
        if number % devices:
            fitting = ", ".join(str(size) for size in range(1, number + 1) if number % size == 0)
            raise ValueError(
                f"{name} is {number}, which cannot be split evenly over the {devices} devices of mesh axis {MODEL!r}: "
                f"choose a --mesh with {MODEL} one of {fitting}, and give the other devices to {DATA!r}"
            )


def check_placement_rules(rules: PlacementRules, *trees: PyTree) -> None:
    """Raises ValueError where a leaf matches no rule, or no leaf has a rule as its first match.

    Args:
      trees: all trees that the rules are written for, together.
    """
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
    """A tree like `tree` of the `Placement` of each leaf, by the first rule that matches.

    A dimension that the devices of an axis do not divide stays replicated along it, and so does a small leaf along
    `data`.

    Args:
      tree: of arrays or `jax.ShapeDtypeStruct`.

    Raises:
      ValueError: a leaf matches no rule, or has fewer dimensions than its rule.
    """
    return jax.tree.map_with_path(lambda path, leaf: _placement(_first_match(rules, path), leaf.shape, mesh), tree)


def _first_match(rules: PlacementRules, path: tuple[Any, ...]) -> PlacementRule:
    name = jax.tree_util.keystr(path, simple=True, separator="/")
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
            reason = f"{size} is no multiple of {devices}"
        if devices > 1 and reason:
            remarks.append(f"replicated along {axis}: {reason}")
        spec.append(axis if devices > 1 and not reason else None)
    return Placement(rule, PartitionSpec(*spec), "; ".join(remarks))


def follow(optimizer: optax.GradientTransformation, placed: PyTree, optimizer_state: optax.OptState) -> PyTree:
    """Placements of an optimiser's state: its moments lie where their parameters do, the rest is replicated.

    Args:
      placed: placements of the parameters.
    """
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
    """The tree of `NamedSharding` that belongs to placements: to restore into, or to compile ahead."""
    return jax.tree.map(lambda placement: NamedSharding(mesh, placement.spec), placed)


def constrain(tree: PyTree, placed: PyTree) -> PyTree:
    """Inside jit: constrains the leaves of a tree to their placements. Where all are replicated, the compiler decides.

    Of a gradient that is summed over devices, each then receives its share of the sum only. Where devices work by
    themselves, each has its own leaves, whole.
    """
    if jax.sharding.get_abstract_mesh().manual_axes or not any_is_sharded(placed):
        return tree
    return jax.tree.map(lambda place, leaf: jax.lax.with_sharding_constraint(leaf, place.spec), placed, tree)


def gathered(parameters: PyTree, rules: PlacementRules) -> PyTree:
    """Inside jit: parameters in the layout of use, for programs that use each of them many times.

    What lies over `data` is converted to the type that it is computed with, and gathered from there; no value of the
    computation changes. What it takes is one copy in that type, 1 / model of it on each device, until the program ends.
    """

    def gather(placement, leaf):
        if DATA not in placement.spec:
            return leaf
        # The type first: the compiler would as soon convert after the gathering, and move twice the bytes.
        leaf = jax.lax.with_sharding_constraint(leaf.astype(placement.rule.dtype or leaf.dtype), placement.spec)
        in_use = PartitionSpec(*(None if axis == DATA else axis for axis in placement.spec))
        return jax.lax.with_sharding_constraint(leaf, in_use)

    return jax.tree.map(gather, placements(rules, parameters, jax.sharding.get_abstract_mesh()), parameters)


def table(placed: PyTree, tree: PyTree, mesh: Mesh) -> str:
    """What is placed where, as a text table: for each rule, and what it came to, leaves and bytes, the most first.

    Args:
      placed: placements of `tree`.
      tree: of arrays or `jax.ShapeDtypeStruct`, such as a whole train state.
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
    cells.append([f"mesh {','.join(f'{name}:{size}' for name, size in mesh.shape.items())}", ""])
    cells[-1] += [*(f"{number:,}" for number in total), ""]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    aligns: tuple[Callable, ...] = (str.ljust, str.ljust, str.rjust, str.rjust, str.rjust, str.ljust)
    return "\n".join(
        "  ".join(align(cell, width) for cell, width, align in zip(row, widths, aligns, strict=True)).rstrip()
        for row in cells
    )


def any_is_sharded(placed: PyTree) -> bool:
    """Whether a leaf lies on several devices in parts."""
    return any(axis is not None for placement in jax.tree.leaves(placed) for axis in placement.spec)


def _axes(spec: PartitionSpec) -> str:
    return ", ".join(axis or "-" for axis in spec) if any(spec) else "replicated"
