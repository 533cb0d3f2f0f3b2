"""Parameters that are expensive to make and always come out the same: kept on disk between runs."""

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
import numpy as np
from absl import logging
from jax.experimental import multihost_utils
from orbax.checkpoint import v1 as ocp

from ipsrl.distributed import hosts
from ipsrl.distributed.start_up import cache_folder
from ipsrl.training import stored_tree
from ipsrl.training.json_files import plain, write_json

PyTree = Any


def cached(key: dict[str, Any], make: Callable[[], PyTree], like: PyTree) -> PyTree:
    """The tree that `make` returns, from the cache folder where an earlier call with the same key left it.

    An entry that is damaged, or is not a tree like `like`, is reported by a warning and made again. Processes that make
    the same entry at the same time do not harm each other: each writes a folder of its own, and renames it when it is
    whole. Of many hosts the first reads or makes the tree and sends it to the others. It does not keep what it made:
    Orbax saves from all hosts or from none.

    Args:
      key: everything that the tree depends on, JSON-able; the order of its entries does not matter.
      make: called where there is no usable entry.
      like: a tree of arrays or `jax.ShapeDtypeStruct` with the structure, shapes, dtypes and (optionally) shardings
        of the result.

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
            harm = stored_tree.damage(entry)
            if harm:
                raise stored_tree.DamagedTreeError(harm)
            with _this_process_alone():
                return stored_tree.load(entry, like)
        except (stored_tree.DamagedTreeError, ValueError) as error:
            logging.warning("The cached parameters in %s cannot be used and are made again: %s", entry, error)
    tree = make()
    difference = stored_tree.first_difference(stored_tree.storable(tree), stored_tree.storable(like))
    if difference:
        raise ValueError(f"the tree made for the parameter cache is not as announced: {difference}")
    if jax.process_count() > 1:
        return tree
    try:
        _store(entry, plain(key), tree)
    except OSError as error:
        logging.warning("The parameters could not be cached in %s, and will be made again next time: %s", entry, error)
    return tree


def _this_process_alone() -> ocp.Context:
    """Orbax waits for no other host."""
    context = ocp.Context()
    context.multiprocessing.primary_host = jax.process_index()
    context.multiprocessing.active_processes = {jax.process_index()}
    return context


def _store(entry: Path, key: dict[str, Any], tree: PyTree) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{entry.name}.", dir=entry.parent))
    try:
        ocp.save(temporary / "new", stored_tree.storable(tree))
        write_json(temporary / "new" / "key.json", key)
        stored_tree.seal(temporary / "new")
        if entry.exists():
            os.rename(entry, temporary / "old")
        try:
            os.rename(temporary / "new", entry)
        except OSError:
            # Another process may have made the same entry meanwhile; either will do.
            if not entry.exists():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
