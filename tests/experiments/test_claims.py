"""What the project must show, on the published demo commands: minutes each, with the seeds they need."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import hypergrid, hypospace

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
    # Those about four dimensions take another command.
    assert {claim: held for claim, held in claims.items() if not claim.startswith("n = 4")} == {
        claim: True for claim in hypergrid.CLAIMS if claim.startswith("n = 2")
    }


@pytest.mark.slow
def test_inverse_probability_scaling_recovers_more_hypotheses_at_the_same_validity(tmp_path):
    summary = summary_of("hypospace", tmp_path)
    assert summary["claims"] == dict.fromkeys(hypospace.CLAIMS, True)
    numbers = summary["numbers"]
    grpo, between, scaled = (numbers[f"{name}, Boolean"]["mean"] for name in ("GRPO", "ProGRPO", "IPS-GRPO"))
    assert grpo < between < scaled < numbers["ceiling, Boolean"]
