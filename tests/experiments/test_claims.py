"""What the project must show, on the published demo commands: minutes each, with the seeds they need."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def summary_of(experiment, folder):
    # A process of its own, because this one has eight devices on however many cores.
    command = [sys.executable, "-m", f"experiments.{experiment}", f"--out={folder}"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600)
    assert finished.returncode == 0, finished.stderr
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.slow
def test_grpo_ends_on_one_mode_and_inverse_probability_scaling_learns_the_grid(tmp_path):
    claims = summary_of("hypergrid", tmp_path)["claims"]
    assert [held for claim, held in claims.items() if claim.startswith("n = 2")] == [True] * 3


@pytest.mark.slow
def test_inverse_probability_scaling_recovers_more_hypotheses_at_the_same_validity(tmp_path):
    summary = summary_of("hypospace", tmp_path)
    assert list(summary["claims"].values()) == [True]
    grpo, scaled, between, ceiling = summary["numbers"].values()
    assert grpo["mean"] < between["mean"] < scaled["mean"] < ceiling
