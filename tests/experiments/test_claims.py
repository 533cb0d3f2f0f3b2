"""What the project must show, on the published demo commands: minutes each, with the seeds they need."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import hypergrid, text_tasks
from experiments.grid import Run, claim_lines
from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.training.metric_log import EVALUATION

ROOT = Path(__file__).parents[2]


def summary_of(experiment, folder):
    # A process of its own, because this one has eight devices on however many cores.
    command = [sys.executable, "-m", f"experiments.{experiment}", f"--out={folder}"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600)
    assert finished.returncode == 0, finished.stderr
    return json.loads((folder / "summary.json").read_text())


def runs(seeds, **measures):
    record = {"step": 0, **{EVALUATION + name: value for name, value in measures.items()}}
    return [Run(objective, seed, [record], Path(), None) for objective in ("grpo", "ips_grpo") for seed in seeds]


@pytest.mark.parametrize(("seeds", "word"), [((0,), "needs two seeds or more"), ((0, 1), "DOES NOT HOLD")])
def test_claims_about_intervals_need_two_seeds(seeds, word):
    grid = Hypergrid(2, 8, 0.1, 0.5, 2.0)
    measured = runs(seeds, l1_total=0.9, cells_visited=64, modes_found=4)
    learned = hypergrid.summarise(grid, measured, check_claims=True)["checks"]
    recovered = text_tasks.summarise(runs(seeds, recovery=0.5, validity=1.0), check_claims=True)["checks"]
    lines = claim_lines(learned | recovered)
    assert len(lines) == 3
    assert all(line.startswith(f"{word}: ") for line in lines)


@pytest.mark.slow
def test_grpo_ends_on_one_mode_and_inverse_probability_scaling_learns_the_grid(tmp_path):
    checks = summary_of("hypergrid", tmp_path)["results"]["n = 2"]["checks"]
    assert len(checks) == 3
    assert all(checks.values()), checks


@pytest.mark.slow
def test_inverse_probability_scaling_recovers_more_hypotheses_at_the_same_validity(tmp_path):
    for task, result in summary_of("hypospace", tmp_path)["tasks"].items():
        assert len(result["checks"]) == 1
        assert all(result["checks"].values()), (task, result)
        recovery = {name: row["recovery"]["mean"] for name, row in result["objectives"].items()}
        assert recovery["grpo"] < recovery["progrpo"] < recovery["ips_grpo(floor=0.2)"] < result["prior"]["ceiling"]
