"""--tracker says where else the metrics of training runs go; it is no part of what a run is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import hypergrid
from ipsrl.study import Output, Study
from ipsrl.study.study import run

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_training_run_is_tracked_and_otherwise_the_same(smoke_folder, tmp_path):
    plain, tracked = smoke_folder(hypergrid), tmp_path / "tracked"
    flags = ["--preset=smoke", "--tracker=tensorboard,wandb", f"--out={tracked}"]
    environment = os.environ | {"WANDB_MODE": "offline"}
    command = [sys.executable, "-m", "experiments.hypergrid", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("trained ") for line in done.stderr.splitlines()), done.stderr
    runs = sorted(path.parent.relative_to(plain) for path in plain.rglob("metrics.jsonl"))
    assert len(runs) == 2 * len(hypergrid.SMOKE.objectives)
    for path in runs:
        for name in ("config.json", "metrics.jsonl", "summary.json"):
            assert (tracked / path / name).read_bytes() == (plain / path / name).read_bytes()
        assert len(list((tracked / path).glob("tensorboard/events.*"))) == 1
        assert len(list((tracked / path).glob("wandb/offline-run-*/*.wandb"))) == 1
    events = {file: file.read_bytes() for file in tracked.rglob("*") if "tensorboard" in str(file) and file.is_file()}
    run(Study.of(hypergrid), hypergrid.SMOKE, "smoke", Output(tracked, resume=True, trackers=("tensorboard",)))
    assert {file: file.read_bytes() for file in events} == events
    assert json.loads((tracked / "summary.json").read_text()) == json.loads((plain / "summary.json").read_text())
