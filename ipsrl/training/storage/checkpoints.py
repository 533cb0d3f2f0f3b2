"""Checkpoints: states from which a run can be resumed."""

import concurrent.futures
import contextlib
import functools
import os
import re
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import logging

from ipsrl.command.ending import RefusedWriteError
from ipsrl.distributed import hosts
from ipsrl.training.storage import stored_tree

if TYPE_CHECKING:
    from orbax.checkpoint import v1 as ocp

PyTree = Any
Note = dict[str, Any] | None
"""A JSON object that is kept beside a state."""

# Orbax measures time by the clock of the system, which jumps when a suspended machine wakes and when it is set. These
# are 20 days; as milliseconds, more would not fit into 32 bits.
SAVE_TIMEOUT_SECONDS = 20 * 24 * 3600


class Checkpoints(contextlib.AbstractContextManager["Checkpoints"]):
    """The latest checkpoints of a run, in a folder.

    A state is a pytree of arrays and is restored bit for bit. Orbax writes to a temporary folder and renames it, so a
    process killed at any moment leaves earlier checkpoints intact.

    With many hosts, each writes its own shards into one shared folder. When all have written, the first host seals the
    folder; it also decides which checkpoint all hosts restore. Every process must call the same methods in the same
    order.

    Args:
      directory: holds one folder for each step; created if missing.
      every: steps that are multiples of this number are `due`.
      keep: how many of the latest checkpoints to keep. With 2, one is left if the last is damaged.
    """

    def __init__(self, directory: str | Path, every: int, keep: int = 2):
        if every < 1 or keep < 1:
            raise ValueError(f"checkpoints need every >= 1 and keep >= 1, not every={every} and keep={keep}")
        self._directory = Path(directory).absolute()
        if self._directory.is_file():
            raise ValueError(f"{self._directory} is a file; it must be the folder of checkpoints")
        self._every = every
        self._keep = keep
        self._checkpointer: ocp.training.Checkpointer | None = None
        self._sealer = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._saving: concurrent.futures.Future[None] | None = None

    def due(self, step: int) -> bool:
        """Whether a step is one of those at which to save."""
        return step % self._every == 0

    def save(self, step: int, state: PyTree, note: Note = None) -> None:
        """Writes `state` in the background.

        The state has been copied when this returns, so its buffers may be donated. The note of the first host is kept
        with it.

        Raises:
          FileExistsError: a checkpoint of this step exists.
          RefusedWriteError: the disk has refused the previous write in the background.
          Exception: any other error of the previous write in the background.
        """
        self.wait()
        if self._checkpointer is None:
            self._checkpointer = self._open()
        response = self._checkpointer.save_async(step, stored_tree.storable(state), force=True, custom_metadata=note)

        def seal_when_written() -> None:
            assert response is not None, "Orbax skips no step that is forced"
            response.result()  # when all hosts have written
            if hosts.is_first():
                stored_tree.seal(self._directory / str(step))

        self._saving = self._sealer.submit(seal_when_written)

    def restore(
        self, like: PyTree, lost: Callable[[Note], str | None] = lambda note: None
    ) -> tuple[int, PyTree, Note] | None:
        """The latest usable checkpoint as `(step, state, note)`, or None if there is no checkpoint.

        A checkpoint that is damaged, or to which something is lost, is reported by a warning and moved to
        `unusable-<step>`, and the one before it is used.

        Args:
          like: a tree of arrays or `jax.ShapeDtypeStruct` with the structure, shapes, dtypes and (optionally)
            shardings of the state.
          lost: called on the first host with the note of a state; a phrase for what belongs to the state and is lost,
            None if nothing is.

        Raises:
          ValueError: the checkpoint has another structure, or no checkpoint can be used. Nothing is moved then.
        """
        self.wait()
        unusable: dict[int, str] = {}
        for step in hosts.broadcast(self._steps()):
            try:
                state = self._load(step, like)
                directory = self._directory / str(step)
                note = hosts.broadcast(hosts.first_does(functools.partial(stored_tree.note, directory)))
                if harm := hosts.broadcast(hosts.first_does(functools.partial(lost, note))):
                    raise stored_tree.DamagedTreeError(harm)
            except stored_tree.DamagedTreeError as error:
                unusable[step] = str(error)
                continue
            hosts.first_does(functools.partial(self._set_aside, unusable, used=step))
            if unusable and self._checkpointer is not None:
                self._checkpointer.reload()
            return step, state, note
        if unusable:
            reasons = "; ".join(f"step {step}: {reason}" for step, reason in unusable.items())
            raise ValueError(
                f"no checkpoint in {self._directory} can be used ({reasons}): restore the files, or delete the folder "
                "of the run to train it anew"
            )
        return None

    def wait(self) -> None:
        """Waits until the write in the background has ended."""
        if self._saving is not None:
            saving, self._saving = self._saving, None
            with _refused_writes(self._directory):
                saving.result()

    def close(self) -> None:
        """Waits, and releases the background threads."""
        try:
            self.wait()
        finally:
            self._sealer.shutdown()
            if self._checkpointer is not None:
                # It raises the error of the last write again.
                with _refused_writes(self._directory):
                    self._checkpointer.close()

    def __exit__(self, kind: object, exception: BaseException | None, traceback: object) -> None:
        # If a host is lost, the write in progress can never be completed.
        if not hosts.may_be_a_loss(exception):
            self.close()

    def _open(self) -> "ocp.training.Checkpointer":
        """The Orbax object that saves; not needed to restore, and logs much about a damaged checkpoint."""
        # Orbax takes longer to import than this whole package: only runs that write import it.
        from orbax.checkpoint import v1 as ocp

        context = ocp.Context()
        context.asynchronous.timeout_secs = SAVE_TIMEOUT_SECONDS
        # Orbax declares a protocol whose method has arguments of other names than its own classes have.
        latest: Any = ocp.training.preservation_policies.LatestN(self._keep)
        return ocp.training.Checkpointer(
            str(self._directory),
            context=context,
            preservation_policy=latest,
            # Removes what a killed process had begun to write.
            cleanup_tmp_directories=True,
        )

    def _load(self, step: int, like: PyTree) -> PyTree:
        """The state of a step; raises `DamagedTreeError` on all hosts if one of them cannot read it."""
        directory, state, harm = self._directory / str(step), None, None
        # One host checks before all load: a host that failed during loading would leave the others waiting.
        damage = hosts.broadcast(hosts.first_does(functools.partial(_damage, directory, like)))
        if damage:
            raise stored_tree.DamagedTreeError(damage)
        try:
            state = stored_tree.load(directory, like)
        except stored_tree.DamagedTreeError as error:
            harm = str(error)
        if not hosts.all_hosts(harm is None):
            raise stored_tree.DamagedTreeError(harm or "another host cannot read it")
        return state

    def _steps(self) -> list[int]:
        """The saved steps, latest first."""
        names = (path.name for path in self._directory.glob("*"))
        return sorted((int(name) for name in names if name.isascii() and name.isdecimal()), reverse=True)

    def _set_aside(self, unusable: dict[int, str], used: int) -> None:
        """Moves checkpoints away that cannot be used, because the run will reach and save their steps again."""
        for step, reason in unusable.items():
            aside = self._directory / f"unusable-{step}"
            if aside.is_file():
                aside.unlink()
            shutil.rmtree(aside, ignore_errors=True)
            (self._directory / str(step)).rename(aside)
            logging.warning(
                "The checkpoint of step %d cannot be used (%s); it was moved to %s, and step %d is used instead.",
                step,
                reason,
                aside,
                used,
            )


@contextlib.contextmanager
def _refused_writes(directory: Path) -> Generator[None]:
    """TensorStore reports a full disk as `ValueError`, like a wrong argument, and Orbax does not say where."""
    try:
        yield
    except (OSError, ValueError) as error:
        said = re.search(r"os_error_code='(\d+)'", str(error))
        code = error.errno if isinstance(error, OSError) else said and int(said[1])
        if code is None:
            raise
        where = getattr(error, "filename", None) or directory
        raise RefusedWriteError(code, os.strerror(code), str(where)) from error


def _damage(directory: Path, like: PyTree) -> str | None:
    """A phrase for what is wrong with a checkpoint, without loading its arrays; None if nothing is wrong."""
    try:
        stored_tree.check(directory, like)
    except stored_tree.DamagedTreeError as error:
        return str(error)
    return None
