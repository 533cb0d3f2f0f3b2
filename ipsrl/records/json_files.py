"""JSON on disk: plain values, and atomic files (a reader sees the old or the new one, never a part)."""

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ipsrl.checking.arguments import shown
from ipsrl.checking.regular_files import kind_of, open_regular, read_bytes


def plain(value: Any, finite: bool = False) -> Any:
    """`value` as JSON types.

    Tuples become lists, dataclasses dicts, arrays and NumPy or JAX scalars numbers and lists of numbers. JSON has no
    NaN and no infinity: every non-finite number becomes null, which plotting tools read as a gap.

    Raises:
      ValueError: a value, or the key of a dict, has no counterpart in JSON, or values are nested too deeply, or, with
        `finite`, a number is not finite.
    """
    try:
        return _plain(value, finite)
    except RecursionError:
        raise ValueError(f"{shown(value)} is nested too deeply for JSON") from None


def _plain(value: Any, finite: bool) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if finite and not math.isfinite(value):
            raise ValueError(f"{value} is not a number that JSON can hold: give a finite one, or None")
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.generic | np.ndarray | jax.Array):
        return _plain(np.asarray(value).tolist(), finite)
    if isinstance(value, list | tuple):
        return [_plain(item, finite) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value), finite)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"the keys of a JSON object are strings, not {type(key).__name__} ({key!r})")
        return {key: _plain(item, finite) for key, item in value.items()}
    raise ValueError(
        f"{value!r} is a {type(value).__name__}, which JSON cannot hold; write numbers, strings, lists or dicts instead"
    )


def replace_file(path: Path, content: str | bytes) -> None:
    """Writes `content` to `path` atomically: after a crash, too, a reader finds the whole old or the whole new file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # Left by a killed process with this number, or put there by another: it is not written through.
        temporary.unlink(missing_ok=True)
        with open_regular(temporary, "xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        # On a full disk its bytes are needed.
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def remove_unfinished(folder: Path) -> None:
    """Removes from a folder what processes have left that were killed in `replace_file`."""
    for path in folder.glob(".*.tmp"):
        # A folder is of someone else.
        if kind_of(path) != "a folder":
            path.unlink()


def require_file(path: Path, called: str) -> None:
    """Raises ValueError unless `path` is, or can become, a file in a folder that exists."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{called}={path}: there is no folder {folder}; make it first")
    if path.is_dir():
        raise ValueError(f"{called}={path} is a folder; it must be a file")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{called}={path}: nothing can be written in {folder}; choose another folder")


def write_json(path: Path, value: Any) -> None:
    """Writes `plain(value)` to `path`, atomically."""
    replace_file(path, json.dumps(plain(value), indent=2) + "\n")


def read_json(path: Path) -> Any:
    """The value in the file `path`.

    Raises:
      ValueError: the file is not JSON, or no file.
    """
    content = read_bytes(path)
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error})") from error
