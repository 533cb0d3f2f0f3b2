"""One command draws all figures: what is missing, and nothing twice; what fails is told and stops nothing else."""

import csv
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from experiments.paper.entries import ENTRIES
from experiments.paper.entry import Entry
from matplotlib.image import imread

from experiments.sweeps.launcher import Launcher
from experiments.sweeps.runs import make_run
from ipsrl.training.json_files import write_json
from scripts import reproduce_figures
from scripts.reproduce_figures import SUFFIXES

ROOT = Path(__file__).parents[2]


class Theatre(Launcher):
    """Plays the experiments: those named in `failing` fail, the others draw their name."""

    def __init__(self, *failing):
        self.failing = failing
        self.played = []

    def launch(self, folder, runs, restarts):
        for run in runs:
            self.played.append(run.experiment)
            if run.experiment in self.failing:
                folder.record_failure(run, run.arguments, 1, "begins\nerror: no numbers today\n")
            else:
                folder.failure_path(run).unlink(missing_ok=True)
                path = folder.run_path(run)
                path.mkdir()
                for suffix in SUFFIXES:
                    (path / f"drawn{suffix}").write_text(run.experiment)
                write_json(path / "environment.json", [{"time": "2026-01-01T00:00:00+0000"}])
                write_json(path / "summary.json", {"complete": True, "right": 0.5})
                os.utime(path / "summary.json", times=(1767225612, 1767225612))
            yield run, folder.state(run)


THREE = ("two_outcomes", "survival_map", "recovery_time")


@pytest.fixture
def play(monkeypatch, tmp_path):
    """Runs the command with three entries and a launcher of these tests; returns what has been played."""
    entries = {
        name: Entry(
            shows=f"the {name}",
            experiment=name,
            figure="drawn",
            minutes=1.0,
            claim="a claim",
            holds=lambda summary: summary["right"] > 0.4,
            numbers=lambda summary: {"right": summary["right"]},
            paper={"right": 0.6},
        )
        for name in THREE
    }
    monkeypatch.setattr(reproduce_figures, "ENTRIES", entries)
    monkeypatch.setattr(reproduce_figures, "OF_THE_PAPER", entries)
    monkeypatch.setattr(reproduce_figures, "OF_OUR_OWN", {})

    def act(*command_line, failing=()):
        theatre = Theatre(*failing)
        monkeypatch.setattr(reproduce_figures.launchers, "make", lambda text: theatre)
        try:
            reproduce_figures.main([f"--out={tmp_path / 'out'}", *command_line])
        finally:
            act.played = theatre.played
        return theatre.played

    return act


def row_of(name, out):
    rows = (out / "figures.md").read_text().splitlines()
    (row,) = [row for row in rows if row.startswith((f"| the {name} ", f"| [the {name}]"))]
    return [cell.strip() for cell in row.strip("|").split("|")]


def run_path(name, out):
    (path,) = (out / "runs").glob(f"{name}-*")
    return path


def test_one_that_fails_is_told_and_the_others_are_drawn_once(play, tmp_path, capsys):
    out = tmp_path / "out"
    with pytest.raises(SystemExit, match=rf"error: 1 of 3 failed: survival_map; see {out}/logs"):
        play(failing=["survival_map"])
    assert play.played == list(THREE)
    printed, errors = capsys.readouterr()
    assert re.search(r"^failed: survival_map-\w+, exit status 1: error: no numbers today$", printed, re.MULTILINE)
    assert errors.splitlines() == ["two_outcomes: finished", "survival_map: failed", "recovery_time: finished"]
    for name in ("two_outcomes", "recovery_time"):
        for suffix in SUFFIXES:
            assert (out / "figures" / f"{name}{suffix}").read_text() == name
        link, _, seconds, numbers, paper, verdict = row_of(name, out)
        assert link == f"[the {name}](figures/{name}.png)"
        assert (seconds, numbers, paper, verdict) == ("12 s", "right 0.5", "right 0.6; a claim", "holds")
    assert row_of("survival_map", out)[2:] == ["not finished", "", "right 0.6; a claim", ""]

    assert play() == ["survival_map"]
    assert row_of("survival_map", out)[5] == "holds"
    assert play() == []


def test_what_has_another_preset_runs_as_well(play, tmp_path):
    play()
    assert play("--preset=smoke") == list(THREE)
    assert row_of("two_outcomes", tmp_path / "out")[5] == "-"
    assert play("--preset=demo") == []
    assert row_of("two_outcomes", tmp_path / "out")[5] == "holds"


def test_what_has_no_folder_any_more_runs_again(play, tmp_path):
    play()
    shutil.rmtree(run_path("two_outcomes", tmp_path / "out"))
    assert play() == ["two_outcomes"]


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda path: write_json(path / "summary.json", {"complete": True}), "KeyError"),
        (lambda path: write_json(path / "environment.json", [{"python": "3"}]), "KeyError"),
        (lambda path: (path / "drawn.pdf").unlink(), "FileNotFoundError"),
    ],
)
def test_what_cannot_be_read_any_more_is_told(damage, error, play, tmp_path):
    out = tmp_path / "out"
    play("--only", "two_outcomes")
    path = run_path("two_outcomes", out)
    damage(path)
    # The others run and are drawn all the same.
    assert play() == ["survival_map", "recovery_time"]
    assert row_of("two_outcomes", out)[3].startswith(f"{path} cannot be read ({error}: ")
    assert row_of("two_outcomes", out)[3].endswith(": move it away to run it anew")
    assert row_of("survival_map", out)[5] == "holds"


def test_some_of_them(play, tmp_path):
    assert play("--only=recovery_time,two_outcomes") == ["recovery_time", "two_outcomes"]
    assert row_of("survival_map", tmp_path / "out")[2] == "not finished"
    assert play("--only", "two_outcomes, survival_map", "survival_map", "--only=recovery_time") == ["survival_map"]
    with pytest.raises(SystemExit, match=f"error: unknown figure 'four'; known: {', '.join(THREE)}"):
        play("--only=two_outcomes,four")


def test_what_is_drawn_stays_drawn_where_a_later_one_is_interrupted(play, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    launch = Theatre.launch

    def interrupted(self, folder, runs, restarts):
        yield from launch(self, folder, runs[:1], restarts)
        raise KeyboardInterrupt

    monkeypatch.setattr(Theatre, "launch", interrupted)
    with pytest.raises(SystemExit) as ended:
        play()
    assert ended.value.code == 130
    assert "the same command goes on with what is missing" in capsys.readouterr().err
    assert row_of("two_outcomes", out)[5] == "holds"
    assert (out / "figures" / "two_outcomes.png").exists()


def test_a_launcher_that_is_not_known(tmp_path):
    with pytest.raises(SystemExit, match="error: unknown launcher 'cloud'"):
        reproduce_figures.main([f"--out={tmp_path / 'out'}", "--launcher=cloud"])


def test_two_at_a_time_are_refused(play, tmp_path):
    out = tmp_path / "out"
    play()
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="error: another sweep is working in"):
            play("--preset=smoke")
    assert play.played == []


def test_the_list(capsys):
    reproduce_figures.main(["--list", "--preset=demo", "--only=hypospace_voxels"])
    assert capsys.readouterr().out == (
        "hypospace_voxels: Table 2, voxels: recovery, 17 min\n"
        "    python -m experiments.hypospace --preset=demo '--tasks=hypospace_voxels(blocks=2, fixed=True)'\n"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("_ctrl_c_is_heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_it_ends_the_experiment_too(number, tmp_path):
    command = [sys.executable, "scripts/reproduce_figures.py", f"--out={tmp_path}", "--preset=smoke"]
    with subprocess.Popen(
        [*command, "--only=two_outcomes"], cwd=ROOT, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while not (locks := list(tmp_path.glob("runs/two_outcomes-*/.lock"))):
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on with what is missing" in errors
    with locks[0].open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.slow
def test_the_smoke_of_everything(tmp_path):
    command = [sys.executable, "scripts/reproduce_figures.py", "--preset=smoke", f"--out={tmp_path}"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3000)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    table = (tmp_path / "figures.md").read_text()
    assert "not finished" not in table
    assert table in finished.stdout
    for name, entry in ENTRIES.items():
        assert entry.shows in table
        path = tmp_path / "runs" / make_run(**entry.request("smoke")).identity
        summary = json.loads((path / "summary.json").read_text())
        assert summary["complete"]
        assert entry.numbers(summary).keys() >= entry.paper.keys()
        assert entry.holds(summary) in (True, False, None)
        if entry.figure:
            drawn = imread(tmp_path / "figures" / f"{name}.png")[..., :3]
            assert 0.02 < np.mean(np.any(drawn < 0.95, axis=-1)) < 0.9, name
            assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 50, name
            assert (tmp_path / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
            with (tmp_path / "figures" / f"{name}.csv").open(newline="") as file:
                rows = list(csv.DictReader(file))
            texts = [row.get("value") or row.get("end_p1") or row.get("p1") for row in rows]
            numbers = [float(text) for text in texts if text]
            assert len(numbers) >= 4, name
            assert np.isfinite(numbers).all(), name

    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0, again.stderr
    assert again.stderr == ""
    assert (tmp_path / "figures.md").read_text() == table
