"""Copies of the metric log for TensorBoard and Weights & Biases: a convenience that never stops a run."""

import contextlib
import math
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ipsrl import extras
from ipsrl.checking.regular_files import read_bytes
from ipsrl.checking.specifications import shortened
from ipsrl.distributed import hosts
from ipsrl.records import metric_log
from ipsrl.records.json_files import replace_file
from ipsrl.records.run_folder import RunFolder

if TYPE_CHECKING:
    import wandb

PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}

# Interval at which event files are flushed.
FLUSH_SECONDS = 5

# Time that W&B may delay a run at its start or end while its server does not answer.
SERVER_SECONDS = 30

Record = dict[str, Any]


def read_trackers(text: str) -> tuple[str, ...]:
    """`"tensorboard,wandb"` -> the names of trackers; empty for an empty text.

    Raises:
      ValueError: there is no such tracker, or its package is not installed.
    """
    names = tuple(dict.fromkeys(text.split(","))) if text else ()
    for name in names:
        if name not in PACKAGES:
            raise ValueError(f"unknown tracker {shortened(name)}; known: {', '.join(PACKAGES)}")
        extras.require(PACKAGES[name])
    return names


class Trackers(contextlib.AbstractContextManager["Trackers"]):
    """Passes the records of a run to its trackers. With many hosts, only the first does.

    A tracker starts with the first record, so resuming a finished run does not change it. A tracker that fails in any
    way is dropped, with a line on stderr. The names are from `read_trackers`; the folder of the run holds TensorBoard's
    event files and W&B's local files.
    """

    def __init__(self, names: Sequence[str], folder: RunFolder):
        self._trackers = {name: TRACKERS[name](folder) for name in names} if hosts.is_first() else {}

    def write(self, record: Record) -> None:
        """Takes a record just written to metrics.jsonl; None stands for non-finite values."""
        self._each(lambda tracker: tracker.write(record))

    def flush(self) -> None:
        """Flushes what each tracker has, see `MetricLog.flush`, if it can."""
        self._each(lambda tracker: tracker.flush())

    def _each(self, action: Callable[[Any], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                action(tracker)
            # Training continues whatever fails in external writers and servers.
            except Exception as error:
                reason = " ".join(str(error).split()) or type(error).__name__
                print(f"--tracker={name} is dropped from here on: {reason}", file=sys.stderr, flush=True)
                del self._trackers[name]
                with contextlib.suppress(Exception):
                    tracker.close(failed=True)

    def __exit__(self, kind: type | None, *exception: object) -> None:
        self._each(lambda tracker: tracker.close(failed=kind is not None))


class TensorBoard:
    """An event for each record, with its numbers, in event files in the folder `tensorboard`.

    A resumed run tells readers to discard the steps that it repeats.
    """

    def __init__(self, folder: RunFolder):
        self._folder = folder.path / "tensorboard"
        self._writer = None

    def write(self, record: Record) -> None:
        extras.require("tensorboardX")
        # SummaryWriter writes in a thread, and would wait for it forever once the disk is full.
        from tensorboardX.event_file_writer import EventsWriter

        # Protobuf makes these classes when their modules are imported.
        from tensorboardX.proto.event_pb2 import Event, SessionLog  # ty: ignore[missing-module-member]
        from tensorboardX.proto.summary_pb2 import Summary  # ty: ignore[missing-module-member]

        if self._writer is None:
            self._folder.mkdir(exist_ok=True)
            # Readers sort files by name; names of starts within the same second need a further difference.
            suffix = f".from_step_{record['step']:09d}"
            self._writer = EventsWriter(str(self._folder / "events"), filename_suffix=suffix)
            begun = SessionLog(status=SessionLog.START)
            self._writer.write_event(Event(wall_time=time.time(), step=record["step"], session_log=begun))
            self.flush()
        values = [
            Summary.Value(tag=name, simple_value=math.nan if value is None else value)
            for name, value in record.items()
            if name != "step" and not isinstance(value, str)
        ]
        self._writer.write_event(Event(wall_time=time.time(), step=record["step"], summary=Summary(value=values)))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()
            self._flushed = time.monotonic()

    def close(self, failed: bool) -> None:
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases:
    """A W&B run, continued by a resumed run: its id is in the folder `wandb`.

    It receives every record of metrics.jsonl once, including those that a killed process had passed on but W&B had not
    stored. Environment variables configure it (WANDB_MODE=offline, WANDB_PROJECT, by default ipsrl, ...). Offline logs
    are in the folder `wandb`; `wandb sync` sends them after the run.
    """

    def __init__(self, folder: RunFolder):
        self._folder = folder
        self._run: wandb.Run | None = None

    def write(self, record: Record) -> None:
        records = [record]
        if self._run is None:
            self._run = self._begun()
            # The record is in the log already, after those of earlier starts.
            records = metric_log.read(self._folder.metrics_path)
        for one in records:
            if one["step"] >= self._next_step:
                values = {name: math.nan if value is None else value for name, value in one.items() if name != "step"}
                self._run.log(values, step=one["step"], commit=True)

    def _begun(self) -> "wandb.Run":
        extras.require("wandb")
        import wandb

        folder = self._folder
        kept = folder.path / "wandb"
        kept.mkdir(exist_ok=True)
        if not (kept / "ipsrl_run_id").exists():
            replace_file(kept / "ipsrl_run_id", secrets.token_hex(8))
        identity = read_bytes(kept / "ipsrl_run_id").decode()
        # It is unknown how much of it reached the disk, so it is logged again.
        for unfinished in kept.glob(f"offline-run-*-{identity}"):
            shutil.rmtree(unfinished)
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "ipsrl"),
            id=identity,
            name=str(folder.path),
            dir=folder.path,
            config=folder.config,
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(
                console="off", silent=True, init_timeout=SERVER_SECONDS, finish_timeout=SERVER_SECONDS
            ),
        )
        # Step of the resumed run; 0 for a new one, and offline.
        self._next_step = run.step
        return run

    def flush(self) -> None:
        """Does nothing: W&B decides when to write."""

    def close(self, failed: bool) -> None:
        if self._run is not None:
            self._run.finish(exit_code=int(failed))


TRACKERS = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}
