"""Trackers show what metrics.jsonl holds, each step once, and no more than their own loss comes of their failures."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ipsrl.records import metric_log
from ipsrl.records.evaluation import Evaluation
from ipsrl.records.metric_log import MetricLog
from ipsrl.records.run_folder import RunFolder
from ipsrl.records.trackers import TRACKERS, Trackers, read_trackers
from tests.records.bandit_run import interrupted_at, train_bandit

# Logs steps from FIRST (after what an earlier process has kept) and dies at LAST, or ends well there.
PROGRAM = """
import os, signal, sys
from ipsrl.records.metric_log import MetricLog, read
from ipsrl.records.trackers import Trackers
from ipsrl.records.run_folder import RunFolder

path, names, first, last, dies = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
with RunFolder.open(path, {"seed": 3}, resume=True) as folder, Trackers(names, folder) as tracker:
    with MetricLog(folder.metrics_path, tracker) as log:
        log.rewrite([record for record in read(folder.metrics_path) if record["step"] < first])
        for step in range(first, last + 1):
            loss = float("nan") if step == 2 else 1.0
            log.write(step, {"reward": step / 7, "loss": loss, "done": step > 9, "rule": "none"})
            if step % 4 == 0:
                log.flush()
        if dies == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
"""


def events(path: Path) -> dict[str, list[tuple[int, float]]]:
    """The values that TensorBoard reads in the folder of a run: tag -> (step, value) pairs."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(path / "tensorboard"), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]
    }


def numbers(path: Path) -> dict[str, list[tuple[int, float]]]:
    """The numbers in metrics.jsonl in the same form."""
    found = {}
    for record in metric_log.read(path / "metrics.jsonl"):
        for name, value in record.items():
            if name != "step" and not isinstance(value, str):
                found.setdefault(name, []).append((record["step"], value))
    return found


def assert_same(found, expected):
    """Equal up to the precision of TensorBoard, NaN included."""
    assert found.keys() == expected.keys()
    for name, points in expected.items():
        assert [step for step, _ in found[name]] == [step for step, _ in points]
        np.testing.assert_allclose([value for _, value in found[name]], [value for _, value in points], rtol=1e-6)


def log_steps(path: Path, names: str, first: int, last: int, dies: bool = False, program=PROGRAM, **variables) -> str:
    """Logs in a process of its own, which may be killed at the end; returns what it says."""
    command = [sys.executable, "-c", program, path, names, str(first), str(last), "dies" if dies else "ends"]
    variables = {**os.environ, "WANDB_MODE": "offline", **variables}
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert done.returncode == (-signal.SIGKILL if dies else 0), done.stderr
    return done.stderr


@pytest.mark.slow
def test_a_killed_and_resumed_run_is_one_run_with_each_step_once(tmp_path):
    said = log_steps(tmp_path, "tensorboard,wandb", 0, 10, dies=True)
    identity = (tmp_path / "wandb" / "ipsrl_run_id").read_text()
    said += log_steps(tmp_path, "tensorboard,wandb", 9, 18, dies=True)
    # No step further than the start before, in the same second.
    said += log_steps(tmp_path, "tensorboard", 9, 12, dies=True)
    said += log_steps(tmp_path, "tensorboard,wandb", 13, 14)
    # A run that is at its end already says nothing more.
    said += log_steps(tmp_path, "tensorboard,wandb", 15, 14)
    assert said == ""
    shown = events(tmp_path)
    assert_same(shown, numbers(tmp_path))
    assert shown.keys() == {"reward", "loss", "done"}
    assert [step for step, _ in shown["reward"]] == list(range(15))
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    assert file.name == f"run-{identity}.wandb"
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    expected = [{"_step": record.pop("step"), **record} for record in records]
    assert history(tmp_path) == [{**one, "loss": "NaN"} if one["loss"] is None else one for one in expected]


@pytest.mark.slow
def test_a_server_that_is_gone_costs_a_line(tmp_path):
    program = f"from ipsrl.records import trackers\ntrackers.SERVER_SECONDS = 2\n{PROGRAM}"
    gone = {"WANDB_MODE": "online", "WANDB_API_KEY": "0" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"}
    said = log_steps(tmp_path, "wandb", 0, 5, program=program, **gone)
    assert said.count("--tracker=wandb is dropped from here on: ") == 1
    assert "Traceback" not in said
    assert len(metric_log.read(tmp_path / "metrics.jsonl")) == 6


def history(path: Path) -> list[dict]:
    """The records in the only file that W&B has on disk of a run, read by W&B's own command."""
    (file,) = (path / "wandb").glob("offline-run-*/*.wandb")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", file]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [one["run"]["config"]["update"]["seed"] for one in found if one["type"] == "run"] == [3]
    items = [one["history"]["item"] for one in found if one["type"] == "history"]
    return [{name: value for name, value in item.items() if name not in ("_runtime", "_timestamp")} for item in items]


class Full:
    """A tracker whose disk is full from step 2 on; closing it fails too."""

    def __init__(self, folder):
        self.steps = []
        Full.last = self

    def write(self, record):
        if record["step"] == 2:
            raise OSError(28, "No space left on device")
        self.steps.append(record["step"])

    def flush(self):
        pass

    def close(self, failed):
        raise OSError(28, "No space left on device")


def test_a_tracker_that_fails_is_left_out_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(TRACKERS, "full", Full)
    with (
        RunFolder.open(tmp_path, {}) as folder,
        Trackers(["full", "tensorboard"], folder) as tracker,
        MetricLog(folder.metrics_path, tracker) as log,
    ):
        for step in range(6):
            log.write(step, {"reward": step / 3})
    assert Full.last.steps == [0, 1]
    assert capsys.readouterr().err == ("--tracker=full is dropped from here on: [Errno 28] No space left on device\n")
    assert len(metric_log.read(tmp_path / "metrics.jsonl")) == 6
    assert_same(events(tmp_path), numbers(tmp_path))


def test_names_of_trackers(monkeypatch):
    assert read_trackers("") == ()
    assert read_trackers("wandb,tensorboard,wandb") == ("wandb", "tensorboard")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="--tracker=tensorboard needs tensorboardX, which is not installed: pip"):
        read_trackers("tensorboard")


def test_a_training_run_has_a_tracker_that_its_resumption_continues(tmp_path):
    def evaluate(step, parameters):
        return Evaluation({"weight": float(step)})

    settings = {"steps": 5, "evaluate_every": 2, "checkpoint_every": 2, "trackers": ["tensorboard"]}
    with pytest.raises(KeyboardInterrupt):
        train_bandit(tmp_path, interrupted_at(4, evaluate), **settings)
    train_bandit(tmp_path, evaluate, resume=True, **settings)
    shown = events(tmp_path)
    assert_same(shown, numbers(tmp_path))
    assert [step for step, _ in shown["reward"]] == [1, 2, 3, 4, 5]
    assert [step for step, _ in shown["evaluation/weight"]] == [0, 2, 4, 5]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2


def test_of_many_hosts_only_the_first_trackers(tmp_path, monkeypatch):
    with RunFolder.open(tmp_path, {}) as folder:
        monkeypatch.setattr("ipsrl.distributed.hosts.is_first", lambda: False)
        with Trackers(["tensorboard", "wandb"], folder) as tracker:
            tracker.write({"step": 0, "reward": 1.0})
    assert not (tmp_path / "tensorboard").exists()
    assert not (tmp_path / "wandb").exists()
