"""Whether a disturbed run has left what an undisturbed one leaves."""

from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp

from ipsrl.training.storage import stored_tree

NOT_COMPARED = {
    "environment.json": "one entry for each start, with its time",
    ".lock": "empty",
    "uncommitted.diff": "changes of the code, not of the run",
}
"""Files, and why they may differ. Beside them only `logs/` of a sweep, what its runs have printed, is left out."""


def differences(disturbed: Path, undisturbed: Path) -> list[str]:
    """A phrase for each file, checkpoint or leaf of a checkpoint that differs, or is on one side only.

    Files are compared byte by byte. Checkpoints are files of Orbax, whose names are random: their seals are verified,
    and their leaves compared bit by bit.
    """
    ours, theirs = (dict(_content(folder)) for folder in (disturbed, undisturbed))
    found = [f"{name} is missing" for name in sorted(theirs.keys() - ours.keys())]
    found += [f"{name} is new" for name in sorted(ours.keys() - theirs.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name].is_dir():
            found += [f"{name}: {what}" for what in _different_leaves(ours[name], theirs[name])]
        elif ours[name].read_bytes() != theirs[name].read_bytes():
            found.append(f"{name} differs")
    return found


def _content(folder: Path) -> Iterator[tuple[str, Path]]:
    """Files by name, and checkpoints as folders."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if parts[0] == "logs" or path.name in NOT_COMPARED:
            continue
        if "checkpoints" in parts:
            if parts[-2:-1] == ("checkpoints",):
                yield "/".join(parts), path
        elif path.is_file():
            yield "/".join(parts), path


def _different_leaves(ours: Path, theirs: Path) -> list[str]:
    if harm := stored_tree.damage(ours):
        return [harm]
    mine, other = _leaves(ours), _leaves(theirs)
    if mine.keys() != other.keys():
        return ["other leaves"]
    return [f"{name} differs" for name in mine if mine[name].tobytes() != other[name].tobytes()]


def _leaves(checkpoint: Path) -> dict[str, np.ndarray]:
    stored = ocp.metadata(checkpoint).metadata
    like = {name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for name, leaf in stored.items()}
    return {name: np.asarray(leaf) for name, leaf in stored_tree.load(checkpoint, like).items()}
