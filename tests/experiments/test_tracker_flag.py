"""--tracker says where else the metrics of training runs go; it is no part of what a run is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(experiment: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", f"experiments.{experiment}", "--preset=smoke", *arguments]
    environment = {**os.environ, "WANDB_MODE": "offline"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, env=environment)


@pytest.mark.slow
def test_every_training_run_is_tracked_and_otherwise_the_same(tmp_path):
    plain, tracked = tmp_path / "plain", tmp_path / "tracked"
    assert run("hypergrid", "--objectives=grpo", f"--out={plain}").returncode == 0
    done = run("hypergrid", "--objectives=grpo", "--tracker=tensorboard,wandb", f"--out={tracked}")
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("trained ") for line in done.stderr.splitlines()), done.stderr
    runs = sorted(path.parent.relative_to(plain) for path in plain.rglob("metrics.jsonl"))
    assert len(runs) == 2
    for path in runs:
        for name in ("config.json", "metrics.jsonl", "summary.json"):
            assert (tracked / path / name).read_bytes() == (plain / path / name).read_bytes()
        assert len(list((tracked / path).glob("tensorboard/events.*"))) == 1
        assert len(list((tracked / path).glob("wandb/offline-run-*/*.wandb"))) == 1
    events = {file: file.read_bytes() for file in tracked.rglob("*") if "tensorboard" in str(file) and file.is_file()}
    again = run("hypergrid", "--objectives=grpo", "--tracker=tensorboard", f"--out={tracked}", "--resume")
    assert again.returncode == 0, again.stderr
    assert {file: file.read_bytes() for file in events} == events
    assert json.loads((tracked / "summary.json").read_text()) == json.loads((plain / "summary.json").read_text())
