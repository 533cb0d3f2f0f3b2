"""Pytrees as Orbax stores them: leaves by name, checked against the tree that is wanted, sealed against damage."""

import concurrent.futures
import hashlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ipsrl.records.json_files import read_json, write_json

PyTree = Any

SEAL = "seal.json"


def named_leaves(tree: PyTree) -> dict[str, Any]:
    """The leaves of `tree` by path, such as "parameters/layers/0/kernel".

    A flat dict is what goes to disk: Orbax then sees neither registered dataclasses nor empty subtrees, and a
    difference in structure is a difference in names.
    """
    paths = jax.tree_util.tree_leaves_with_path(tree)
    named = {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in paths}
    if len(named) < len(paths):
        raise ValueError(
            "two leaves of the tree have the same path once its keys are joined by '/'; rename one of them"
        )
    return named


def storable(tree: PyTree) -> dict[str, Any]:
    """The named leaves that Orbax can write: it refuses arrays of size zero, which hold nothing to restore."""
    return {name: leaf for name, leaf in named_leaves(tree).items() if leaf.size}


def check(directory: Path, like: PyTree) -> None:
    """Whether Orbax has saved a tree like `like` in `directory`, as far as its metadata tell; reads no array.

    Raises:
      DamagedTreeError: the metadata cannot be read.
      ValueError: they are of another tree.
    """
    # Orbax takes longer to import than all of this package: only runs that read wait for it.
    from orbax.checkpoint import v1 as ocp

    # Orbax raises many types where it cannot read a file.
    try:
        stored = ocp.metadata(directory).metadata
    except Exception as error:
        raise DamagedTreeError(_first_line(error)) from error
    if stored is None:
        raise DamagedTreeError("Orbax cannot tell what is in it")
    difference = first_difference(stored, storable(like))
    if difference:
        raise ValueError(f"{directory} does not hold the state that is expected here: {difference}")


def load(directory: Path, like: PyTree) -> PyTree:
    """The tree whose `storable` leaves Orbax has saved in `directory`. Of many hosts all have to call it.

    Of what `damage` and `check` find nothing is seen here: ask first.

    Args:
      directory: an Orbax checkpoint, sealed or not.
      like: a tree of arrays or `jax.ShapeDtypeStruct` with the structure, shapes, dtypes and (optionally) shardings of
        the result. A leaf without a sharding goes to this process's first device.

    Raises:
      DamagedTreeError: the files cannot be read.
    """
    from orbax.checkpoint import v1 as ocp

    first_device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    wanted = {
        name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=getattr(leaf, "sharding", None) or first_device)
        for name, leaf in storable(like).items()
    }
    try:
        restored = ocp.load(directory, wanted)
    except Exception as error:
        raise DamagedTreeError(_first_line(error)) from error
    leaves = [
        restored[name] if leaf.size else jnp.zeros(leaf.shape, leaf.dtype) for name, leaf in named_leaves(like).items()
    ]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


class DamagedTreeError(Exception):
    """A stored tree cannot be read; the message is a phrase that says why."""


def first_difference(stored: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    """A phrase for the first leaf in which two dicts of named leaves differ in presence, shape or dtype."""
    for name in [*wanted, *stored]:
        if name not in stored:
            return f"leaf {name!r} is not in it"
        if name not in wanted:
            return f"it has a leaf {name!r} that is not expected"
        there, here = (f"{side[name].dtype}{list(side[name].shape)}" for side in (stored, wanted))
        if there != here:
            return f"leaf {name!r} is {there} in it where {here} is expected"
    return None


def seal(directory: Path) -> None:
    """Writes the checksum of every file below `directory` into it.

    Orbax notices files that are cut or missing, at the price of many log lines, but not a changed byte in the data.
    """
    write_json(directory / SEAL, _checksums(directory))


def damage(directory: Path) -> str | None:
    """A phrase for the first file that no longer is what `seal` saw; None where all are, or where there is no seal."""
    if not (directory / SEAL).exists():
        return None
    try:
        sealed = read_json(directory / SEAL)
    except ValueError as error:
        return str(error)
    found = _checksums(directory)
    for name, checksum in sealed.items():
        if found.get(name) != checksum:
            return f"{name} is damaged" if name in found else f"{name} is missing"
    return None


def _checksums(directory: Path) -> dict[str, str]:
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != SEAL]
    # A core alone would read a state of 80 GB, 7B parameters with Adam's moments, for a minute or more.
    with concurrent.futures.ThreadPoolExecutor() as threads:
        checksums = threads.map(_checksum, files)
        return {str(path.relative_to(directory)): checksum for path, checksum in zip(files, checksums, strict=True)}


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
