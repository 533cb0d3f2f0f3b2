"""The folder that a run writes: its lock, its identity and its description."""

import dataclasses
import fcntl
import functools
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Self

import jax

import ipsrl
from ipsrl.checking.arguments import checked
from ipsrl.checking.paths import require_possible
from ipsrl.checking.regular_files import open_regular, require
from ipsrl.checking.specifications import shortened
from ipsrl.distributed import hosts
from ipsrl.records.json_files import plain, read_json, remove_unfinished, replace_file, write_json
from ipsrl.records.progress_line import report_line

# Time until a network file system shows on one host what another has written.
LATE_SECONDS = 30


SUMMARY = "summary.json"
STARTS = "environment.json"
UNCOMMITTED = "uncommitted.diff"
FILES = (UNCOMMITTED, ".lock")
FOLDERS = ("checkpoints", "tensorboard", "wandb", "arrays")
# A longer diff is data that was added, not a record of the code.
LONGEST_DIFF = 1_000_000
NEW_MODULES = 50
# A git that takes longer hangs, as on a file system that does; it is not asked again.
GIT_SECONDS = 10.0
HANGING_GIT: list[str] = []
# The beginnings of environment variables that change how JAX computes.
OF_JAX = ("JAX_", "XLA_", "PJRT_", "LIBTPU_INIT_ARGS", "CUDA_VISIBLE_DEVICES")


class RunFolderError(ValueError):
    """An output folder cannot be used for this run; the message states the reason and what to do, in one sentence."""


@dataclasses.dataclass(frozen=True)
class RunFolder(AbstractContextManager["RunFolder"]):
    """The output folder of one run, used by one process at a time.

        config.json        the resolved settings: the identity of the run
        environment.json   a list, one entry for each start: versions, processes, devices, commit, command
        uncommitted.diff   changes of the code since its commit, at the last start; only if there were any
        metrics.jsonl      written by `MetricLog`
        warnings.jsonl     written by `WarningLog`
        outcomes.jsonl     written by `EvaluationLog`, as is completions.jsonl
        checkpoints/       written by `Checkpoints`
        summary.json       the results
        tensorboard/       and wandb/, written by `Trackers`, if requested

    Made by `RunFolder.open`; a context manager that releases the folder. If the process is killed, the operating system
    releases it. With many hosts, the first holds the lock and writes all files except checkpoints.

    Attributes:
      path: the folder.
      config: the run's configuration, as in config.json.
      lock: held by the first host, None on the others.
      study: the folder of the study that this run belongs to, if it belongs to one.
    """

    path: Path
    config: dict[str, Any]
    lock: IO[bytes] | None = dataclasses.field(repr=False, compare=False)
    study: Path | None = None

    @classmethod
    @checked
    def open(
        cls, path: str | Path, config: dict[str, Any], resume: bool = False, study: str | Path | None = None
    ) -> Self:
        """Takes the folder `path` for the run described by `config`.

        A missing or empty folder starts the run. With `resume` a folder of the same run is continued; without it such a
        folder is taken only if it holds neither metrics nor checkpoints. Hidden files are ignored.

        Args:
          config: everything that determines the run (objective, environment, policy, seed, ...): a dict of JSON
            values, without NaN and infinity. Tuples equal lists, but 1 differs from 1.0.
          study: the folder of the study that this run belongs to, if it belongs to one.

        Raises:
          RunFolderError: there cannot be such a folder, or it holds another run, the same run without `resume`, files
            but no run, or a damaged config.json or environment.json, or another process is writing to it. Then nothing
            in it has been changed.
          OtherHostError: any of these, on the hosts other than the first.
          ValueError: the hosts have different configurations, or see different folders; or JSON cannot hold the
            configuration.
        """
        path, config = Path(path), plain(config, finite=True)
        hosts.require_same(config, "configuration of this run")
        lock = hosts.first_does(functools.partial(_take, path, config, resume, study))
        folder = cls(path, config, lock, None if study is None else Path(study))
        if not hosts.all_hosts(_appears(path / "config.json")):
            folder.close()
            raise RunFolderError(
                f"not all hosts see the files that the first has written to {path}; choose an --out that they share"
            )
        return folder

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def checkpoint_directory(self) -> Path:
        return self.path / "checkpoints"

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Writes summary.json atomically, with `complete: true` among its entries: it is written last."""
        if hosts.is_first():
            write_json(self.path / SUMMARY, {"complete": True, **summary})

    def withdraw_summary(self) -> None:
        """Removes summary.json, and that of the study, before records that they summarise change."""
        for folder in (self.path, self.study) if hosts.is_first() else ():
            if folder is not None:
                (folder / SUMMARY).unlink(missing_ok=True)

    def close(self) -> None:
        """Releases the folder."""
        if self.lock is not None:
            self.lock.close()

    def __exit__(self, *exception: object) -> None:
        self.close()


def is_complete(path: Path) -> bool:
    """Whether the run in this folder has ended, according to its summary."""
    try:
        return says_complete(read_json(path / SUMMARY))
    except (FileNotFoundError, ValueError):
        return False


def says_complete(summary: Any) -> bool:
    """Whether the content of a summary.json says that the run has ended."""
    return isinstance(summary, dict) and summary.get("complete") is True


def _appears(path: Path) -> bool:
    """Whether a file exists, or appears within `LATE_SECONDS`."""
    for _ in range(LATE_SECONDS):
        if path.exists():
            return True
        time.sleep(1)
    return path.exists()


def _take(path: Path, config: dict[str, Any], resume: bool, study: str | Path | None) -> IO[bytes]:
    """`RunFolder.open` on the first host; returns the lock."""
    if study is not None and not path.resolve().is_relative_to(Path(study).resolve()):
        raise RunFolderError(f"{path} is behind a link out of {study}; move it away or choose another --out")
    # Once without the lock, so that nothing is written to a refused folder; then again with it, because another process
    # may have started a run in between.
    _check(path, config, resume)
    path.mkdir(parents=True, exist_ok=True)
    lock = open_regular(path / ".lock", "ab")
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunFolderError(
                f"another process is writing to {path}; wait until it ends or choose another --out"
            ) from error
        _check(path, config, resume)
        for folder in (path, path / "arrays"):
            remove_unfinished(folder)
        if not (path / "config.json").exists():
            write_json(path / "config.json", config)
        _record_start(path)
    except BaseException:
        lock.close()
        raise
    return lock


def _check(path: Path, config: dict[str, Any], resume: bool) -> None:
    """Raises `RunFolderError` if `RunFolder.open` must refuse."""
    try:
        require_possible(path)
    except ValueError as error:
        raise RunFolderError(str(error)) from error
    # A pattern without a star passes over a link that leads nowhere.
    files = [path / name for name in FILES]
    files += [file for pattern in ("*.json", "*.jsonl") for file in path.glob(pattern)]
    try:
        # Through a link this run would change what lies elsewhere.
        for file in files:
            require(file, "a file")
        for name in FOLDERS:
            require(path / name, "a folder")
    except ValueError as error:
        raise RunFolderError(f"{error}; move it away or choose another --out") from error
    if not (path / "config.json").exists():
        held = sorted(file.name for file in path.glob("[!.]*"))
        if held:
            raise RunFolderError(
                f"{path} holds {held[0]!r} but no config.json, so it is not the folder of a run; choose another --out"
            )
        return
    try:
        there = read_json(path / "config.json")
    except ValueError as error:
        raise RunFolderError(
            f"{error}, so the run in this folder cannot be identified; choose another --out"
        ) from error
    differences = list(_differences(there, config))
    if differences:
        shown = ", ".join(differences[:3])
        more = f" and {len(differences) - 3} more" if len(differences) > 3 else ""
        raise RunFolderError(
            f"{path} belongs to a run with another config: {shown}{more}; use that config or choose another --out"
        )
    try:
        _starts(path)
    except ValueError as error:
        raise RunFolderError(f"{error}; move it away or choose another --out") from error
    metrics = path / "metrics.jsonl"
    has_begun = (metrics.exists() and metrics.stat().st_size > 0) or any((path / "checkpoints").glob("[!.]*"))
    if has_begun and not resume:
        raise RunFolderError(f"{path} already holds this run; pass --resume to continue it or choose another --out")


def _differences(there: Any, here: Any, key: str = "") -> Iterator[str]:
    """A phrase for each leaf that differs between two JSON values."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name in sorted(there.keys() | here.keys()):
            where = f"{key}.{name}" if key else name
            if name not in there or name not in here:
                phrases = [json.dumps(side[name]) if name in side else "absent" for side in (there, here)]
                yield f"{where} is {phrases[0]} there and {phrases[1]} here"
            else:
                yield from _differences(there[name], here[name], where)
    elif json.dumps(there) != json.dumps(here):
        yield f"{key or 'config'} is {json.dumps(there)} there and {json.dumps(here)} here"


def _starts(path: Path) -> list[Any]:
    """The starts of the run so far; raises ValueError if environment.json is damaged."""
    if not (path / STARTS).exists():
        return []
    starts = read_json(path / STARTS)
    if not isinstance(starts, list):
        raise ValueError(f"{path / STARTS} holds {shortened(json.dumps(starts))}, but must hold a list of starts")
    return starts


def _record_start(path: Path) -> None:
    """Appends the environment of this process to the list in environment.json."""
    start = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **_this_process()}
    write_json(path / STARTS, [*_starts(path), start])
    diff = path / UNCOMMITTED
    if changes := _uncommitted():
        replace_file(diff, changes)
    else:
        diff.unlink(missing_ok=True)


@functools.cache
def _this_process() -> dict[str, Any]:
    """The environment of this process. Cached, as it takes 0.1 s and a process may write hundreds of runs."""
    return {
        "python": platform.python_version(),
        **{
            name: importlib.metadata.version(name)
            for name in ("ipsrl", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint")
        },
        "platform": platform.platform(),
        "backend": jax.default_backend(),
        "processes": jax.process_count(),
        "devices": [device.device_kind for device in jax.devices()],
        "variables": {name: os.environ[name] for name in sorted(os.environ) if name.startswith(OF_JAX)},
        "git_commit": _git_commit(),
        "command": shlex.join(sys.orig_argv),
    }


def _git_commit() -> str | None:
    """The commit from which ipsrl was imported, with "-dirty" after uncommitted changes; None outside a checkout."""
    commit = _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    return None if commit is None else commit.strip()


@functools.cache
def _uncommitted() -> str:
    """The uncommitted changes, with up to `NEW_MODULES` new modules; empty if there are none, or too many to store."""
    new = (_git("ls-files", "--others", "--exclude-standard", "--", "*.py") or "").splitlines()
    commands = [("diff", "HEAD"), *(("diff", "--no-index", "/dev/null", path) for path in new[:NEW_MODULES])]
    changes = "".join(_git(*command) or "" for command in commands)
    return changes if len(changes) <= LONGEST_DIFF else ""


def _git(*command: str) -> str | None:
    """The output of git in the checkout from which ipsrl was imported; None outside one, or if git fails or hangs."""
    root = Path(ipsrl.__file__).parents[1]
    if HANGING_GIT or not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", str(root), *command], capture_output=True, timeout=GIT_SECONDS)
    except subprocess.TimeoutExpired:
        HANGING_GIT.append(command[0])
        report_line(f"git {command[0]} does not end: the records will not say which code has run")
        return None
    except OSError:
        return None
    # 1: files differ, which is no failure.
    return done.stdout.decode(errors="replace") if done.returncode in (0, 1) else None
