"""The published commands, as a user types them."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIGURES = {
    "two_outcomes": "two_outcomes",
    "hypergrid": "hypergrid_laws",
    "hypospace": "hypospace",
    "countdown": "countdown",
    "group_size_and_floor": "group_size_and_floor",
    "compare": "comparison",
    "survival_map": "survival_map",
    "collapse_time": "collapse_time",
    "recovery_time": "recovery_time",
    "many_outcomes": "many_outcomes",
    "path_multiplicity": "path_multiplicity",
    "verdicts": "verdicts",
    "phase_portraits": "phase_portraits",
}


def run(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", FIGURES)
def test_smoke_command_writes_everything_and_continues_when_asked(experiment, tmp_path):
    out = tmp_path / "out"
    first = run(f"experiments.{experiment}", "--preset=smoke", f"--out={out}")
    assert first.returncode == 0, first.stderr
    assert all(line.startswith(("trained ", "judged ")) for line in first.stderr.splitlines()), first.stderr
    assert json.loads((out / "summary.json").read_text())["complete"]
    assert json.loads((out / "config.json").read_text())
    assert list(out.rglob("metrics.jsonl"))
    for suffix in ("png", "pdf"):
        assert (out / f"{FIGURES[experiment]}.{suffix}").stat().st_size > 5000
    assert (out / f"{FIGURES[experiment]}.csv").read_text().count("\n") > 4
    assert f"figure: {out}" in first.stdout

    again = run(f"experiments.{experiment}", "--preset=smoke", f"--out={out}", "--resume")
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout


@pytest.mark.slow
@pytest.mark.parametrize("experiment", FIGURES)
def test_help_shows_the_notebook_page_and_every_flag(experiment):
    shown = run(f"experiments.{experiment}", "--help").stdout
    for word in ("Claim", "Paper", "Command", "Time", "Expected", "Smoke", "Figure", "--preset", "--out", "--resume"):
        assert word in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--objectives=grpp"], "unknown objective 'grpp'; did you mean grpo"),
        (["--objectives=grpo(epsilon=1)"], "has no argument 'epsilon'"),
        (["--tasks=maze"], "unknown environment 'maze'; known: bandit"),
        (["--tasks=bandit"], "is no text task"),
        (["--preset=huge"], "unknown preset 'huge'; known: smoke, demo, paper"),
        (["--preset=smoke", "--group_size=1"], "group_size is 1, it must be at least 2"),
        (["--preset=smoke", "--objectives=ips_grpo(probability=exact)"], "needs log_backward"),
        (["--preset=smoke", "--objectives=critique_grpo"], '--rules="off_policy(answers=8)"'),
        (["--preset=smoke", "--objectives=grpo", "--refresh_reference_every=2"], "nothing here asks for a reference"),
        (["--preset=smoke", "--seeds=0,0"], "cannot read seeds"),
        (["--preset=smoke", "--objectives=grpo,grpo(clip_low=0.2)"], "are the same objective"),
        (["--preset=smoke", "--rules=dynamic"], "unknown rule 'dynamic'; known: difficulty_filter, dynamic_sampling"),
        (["--preset=smoke", "--rules=off_policy(answers=0)"], "the number of further answers is 0"),
        (["--preset=smoke", "--monitors=low"], "unknown monitor 'low'; known: batch_drift, "),
        (["--preset=smoke", "--answers=0"], "--answers is 0, it must be positive"),
        (["--preset=smoke", "--prior_share=2"], "it must lie between 0 and 1"),
        (["--preset=smoke", "--mesh=data:3"], "does not fit the 1 devices"),
        (["smoke"], "unexpected argument 'smoke'"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
@pytest.mark.slow
def test_bad_input_ends_in_one_sentence_and_writes_no_run(arguments, message, tmp_path):
    finished = run("experiments.hypospace", *arguments, f"--out={tmp_path / 'out'}")
    assert finished.returncode != 0
    assert message in finished.stderr
    assert finished.stderr.startswith("error: ")
    assert finished.stderr.count("\n") == 1
    assert not list(tmp_path.rglob("metrics.jsonl"))


@pytest.mark.slow
@pytest.mark.usefixtures("_ctrl_c_is_heard")
def test_ctrl_c_ends_in_one_sentence(tmp_path):
    command = [sys.executable, "-m", "experiments.compare", f"--out={tmp_path}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("bandit: --seeds=0:8 --steps=4000 ")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors == "interrupted: the same command with --resume takes up what is finished\n"


@pytest.mark.slow
def test_rules_around_the_objective_are_flags(tmp_path):
    rules = (
        "dynamic_sampling(rounds=2), difficulty_filter(width=8, last_width=8), off_policy(answers=2, source=reference)"
    )
    command = [
        "experiments.hypospace",
        "--preset=smoke",
        "--objectives=critique_grpo",
        "--seeds=0",
        f"--out={tmp_path}",
    ]
    finished = run(*command, f"--rules={rules}", "--refresh_reference_every=2")
    assert finished.returncode == 0, finished.stderr
    (log,) = tmp_path.rglob("metrics.jsonl")
    last = json.loads(log.read_text().splitlines()[-1])
    assert 1 <= last["sampling_rounds"] <= 2
    assert last["trajectories_sampled"] == last["sampling_rounds"] * 8 * (8 + 2)
    assert {"prompt_survival", "difficulty_error", "off_policy_reward"} <= last.keys()
