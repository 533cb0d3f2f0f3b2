"""Pytrees stored by Orbax: leaves by name, checked against an expected tree, sealed by checksums."""

import concurrent.futures
import hashlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ipsrl.checking.arguments import shown
from ipsrl.distributed.placement import leaf_name
from ipsrl.records.json_files import read_json, write_json

PyTree = Any

SEAL = "seal.json"


def named_leaves(tree: PyTree) -> dict[str, Any]:
    """The leaves of `tree` by path, such as "parameters/layers/0/kernel".

    A flat dict is stored: Orbax then meets neither registered dataclasses nor empty subtrees, and a difference in
    structure is a difference in names.
    """
    paths = jax.tree_util.tree_leaves_with_path(tree)
    named = {leaf_name(path): leaf for path, leaf in paths}
    if len(named) < len(paths):
        raise ValueError(
            "two leaves of the tree have the same path once its keys are joined by '/'; rename one of them"
        )
    return named


def storable(tree: PyTree) -> dict[str, Any]:
    """The named leaves as Orbax can write them: PRNG keys as their data, and no arrays of size zero, which hold nothing
    to restore.
    """
    return {
        name: jax.random.key_data(leaf) if _is_key(leaf) else leaf
        for name, leaf in named_leaves(tree).items()
        if leaf.size
    }


def check(directory: Path, like: PyTree) -> None:
    """Checks from seal and metadata, without loading arrays, that Orbax saved a tree like `like` in `directory`.

    Raises:
      DamagedTreeError: a file has changed since the folder was sealed, or the metadata cannot be read.
      ValueError: it holds another tree.
    """
    if harm := damage(directory):
        raise DamagedTreeError(harm)
    # Orbax takes longer to import than this whole package: only runs that read import it.
    from orbax.checkpoint import v1 as ocp

    # Orbax raises many types of errors for a file that it cannot read.
    try:
        stored = ocp.metadata(str(directory)).metadata
    except Exception as error:
        raise DamagedTreeError(_first_line(error)) from error
    if stored is None:
        raise DamagedTreeError("Orbax cannot read its metadata")
    difference = first_difference(stored, storable(like))
    if difference:
        raise ValueError(f"{directory} does not hold the state expected here: {difference}")


def note(directory: Path) -> dict[str, Any] | None:
    """The JSON object that Orbax has saved beside the tree in `directory`, as its custom metadata; None for none."""
    from orbax.checkpoint import v1 as ocp

    found = ocp.metadata(str(directory)).custom_metadata
    return found if isinstance(found, dict) else None


def load(directory: Path, like: PyTree) -> PyTree:
    """The tree whose `storable` leaves Orbax has saved in `directory`. With many hosts, all must call it.

    Does not repeat `check`: call it first.

    Args:
      directory: an Orbax checkpoint, sealed or not.
      like: a tree of arrays or, except for PRNG keys, `jax.ShapeDtypeStruct` with the structure, shapes, dtypes and
        (optionally) shardings of the result. A leaf without a sharding goes to this process's first device.

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
        restored = ocp.load(str(directory), wanted)
    except Exception as error:
        raise DamagedTreeError(_first_line(error)) from error

    def leaf_of(name, leaf):
        if not leaf.size:
            return jnp.zeros(leaf.shape, leaf.dtype)
        return (
            jax.random.wrap_key_data(restored[name], impl=jax.random.key_impl(leaf))
            if _is_key(leaf)
            else restored[name]
        )

    leaves = [leaf_of(name, leaf) for name, leaf in named_leaves(like).items()]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


class DamagedTreeError(Exception):
    """A stored tree cannot be read; the message is a phrase that says why."""


def first_difference(stored: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    """A phrase for the first leaf whose presence, shape or dtype differs between two dicts; None if there is none."""
    for name in [*wanted, *stored]:
        if name not in stored:
            return f"leaf {name!r} is missing"
        if name not in wanted:
            return f"leaf {name!r} is not expected"
        there, here = (f"{side[name].dtype}{list(side[name].shape)}" for side in (stored, wanted))
        if there != here:
            return f"leaf {name!r} is {there}, expected {here}"
    return None


def seal(directory: Path, name: str = "") -> None:
    """Writes the name of `directory` and the checksum of every file below it into it.

    Orbax notices missing or truncated files, with many log lines, but neither a changed byte in the data nor another
    name of the folder.

    Args:
      directory: of a stored tree.
      name: the one that it will have; by default the one that it has.
    """
    write_json(directory / SEAL, {"folder": name or directory.name, "files": _checksums(directory)})


def damage(directory: Path) -> str | None:
    """A phrase for the first difference between a folder and its seal; None if they agree, or if there is no seal."""
    if not (directory / SEAL).exists():
        return None
    try:
        sealed = read_json(directory / SEAL)
    except ValueError as error:
        return str(error)
    if not isinstance(sealed, dict) or not isinstance(files := sealed.get("files"), dict):
        return f"{SEAL} is damaged, or of another version"
    if sealed.get("folder") != directory.name:
        return f"its folder was sealed as {shown(sealed.get('folder'))}"
    found = _checksums(directory)
    for name in sorted(files.keys() | found.keys()):
        if name not in found:
            return f"{name} is missing"
        if name not in files:
            return f"{name} is not in {SEAL}"
        if files[name] != found[name]:
            return f"{name} is damaged"
    return None


def _checksums(directory: Path) -> dict[str, str]:
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != SEAL]
    # One core would need a minute or more to read a state of 80 GB (7B parameters with Adam's moments).
    with concurrent.futures.ThreadPoolExecutor() as threads:
        checksums = threads.map(_checksum, files)
        return {str(path.relative_to(directory)): checksum for path, checksum in zip(files, checksums, strict=True)}


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
