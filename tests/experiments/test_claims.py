"""The results that the project must show, from its published demo commands with other seeds and fewer steps."""

import json
import os
import subprocess
import sys
from pathlib import Path

from experiments import hypergrid
from ipsrl.study.text_tasks import CEILING, GRPO, IPS

ROOT = Path(__file__).parents[2]


def summary_of(experiment, folder, *flags):
    # A process of its own, because this one has eight devices on however many cores.
    command = [sys.executable, "-m", f"experiments.{experiment}", *flags, f"--out={folder}"]
    # Optimised as for users: here a program runs for longer than it compiles.
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return json.loads((folder / "summary.json").read_text())


def test_grpo_ends_on_one_mode_and_inverse_probability_scaling_learns_the_grid(tmp_path):
    flags = ("--seeds=0:5", "--steps=400", "--evaluate_every=200", "--checkpoint_every=400")
    claims = summary_of("hypergrid", tmp_path, *flags)["claims"]
    # Those about four dimensions take another command.
    assert {claim: held for claim, held in claims.items() if not claim.startswith("n = 4")} == {
        claim: True for claim in hypergrid.CLAIMS if claim.startswith("n = 2")
    }


def test_inverse_probability_scaling_recovers_more_hypotheses(tmp_path):
    """One seed and a fifth of the demo's steps are run; the demo's claim needs more seeds."""
    flags = ("--objectives=grpo,ips_grpo(floor=0.2)", "--seeds=0", "--steps=60", "--evaluate_every=60")
    final = {row["objective"]: row["recovery"] for row in summary_of("hypospace", tmp_path, *flags)["final"]}
    assert 1.5 * final[GRPO]["mean"] < final[IPS]["mean"] < final[CEILING]
