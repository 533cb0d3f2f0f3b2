"""A disk cache for parameters that are expensive to compute and always the same."""

import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from jax.experimental import multihost_utils
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from ipsrl.distributed import hosts
from ipsrl.distributed.start_up import cache_folder
from ipsrl.records.json_files import plain, write_json
from ipsrl.training.storage import stored_tree

PyTree = Any

# Not by Orbax, which counts operations across all hosts: one made by a single host would leave the others waiting.
PARAMETERS = "parameters.safetensors"


def cached(key: dict[str, Any], make: Callable[[], PyTree], like: PyTree) -> PyTree:
    """The tree that `make` returns, read from the cache folder if an earlier call stored it under the same key.

    An entry that is damaged or not a tree like `like` is reported by a warning and made again. Processes may make the
    same entry at the same time: each writes its own folder and renames it when complete. With many hosts, the first
    reads or makes the tree and broadcasts it.

    Args:
      key: everything that the tree depends on, as JSON values; the order of entries does not matter.
      make: called if there is no usable entry.
      like: a tree of arrays or `jax.ShapeDtypeStruct` with the structure, shapes and dtypes of the result.

    Raises:
      ValueError: `make` returned a tree that is not like `like`.
    """
    tree = hosts.first_does(functools.partial(_cached_here, key, make, like))
    if jax.process_count() == 1:
        return tree
    empty = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like)
    return multihost_utils.broadcast_one_to_all(tree if hosts.is_first() else empty)


def _cached_here(key: dict[str, Any], make: Callable[[], PyTree], like: PyTree) -> PyTree:
    digest = hashlib.sha256(json.dumps(plain(key), sort_keys=True).encode()).hexdigest()
    entry = cache_folder() / "parameters" / digest[:32]
    if entry.exists():
        try:
            return _read(entry, like)
        except (stored_tree.DamagedTreeError, SafetensorError, ValueError, OSError) as error:
            logging.warning("The cached parameters in %s cannot be used and will be made again: %s", entry, error)
    tree = make()
    difference = stored_tree.first_difference(stored_tree.named_leaves(tree), stored_tree.named_leaves(like))
    if difference:
        raise ValueError(f"the tree made for the parameter cache differs from `like`: {difference}")
    try:
        _store(entry, plain(key), tree)
    except (OSError, SafetensorError) as error:
        logging.warning("The parameters could not be cached in %s and will be made again next time: %s", entry, error)
    return tree


def _read(entry: Path, like: PyTree) -> PyTree:
    harm = stored_tree.damage(entry)
    if harm:
        raise stored_tree.DamagedTreeError(harm)
    stored, wanted = load_file(entry / PARAMETERS), stored_tree.named_leaves(like)
    difference = stored_tree.first_difference(stored, wanted)
    if difference:
        raise ValueError(difference)
    return jax.tree.unflatten(jax.tree.structure(like), [jnp.asarray(stored[name]) for name in wanted])


def _store(entry: Path, key: dict[str, Any], tree: PyTree) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{entry.name}.", dir=entry.parent))
    try:
        (temporary / "new").mkdir()
        named = stored_tree.named_leaves(tree)
        save_file({name: np.asarray(leaf) for name, leaf in named.items()}, temporary / "new" / PARAMETERS)
        write_json(temporary / "new" / "key.json", key)
        stored_tree.seal(temporary / "new", entry.name)
        if entry.exists():
            os.rename(entry, temporary / "old")
        try:
            os.rename(temporary / "new", entry)
        except OSError:
            # Another process may have stored the same entry meanwhile; either one is fine.
            if not entry.exists():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
