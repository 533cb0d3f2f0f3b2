"""One command draws all figures: what is missing, and nothing twice; what fails is told and stops nothing else."""

import csv
import dataclasses
import fcntl
import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from matplotlib.image import imread

from experiments.paper import ENTRIES, Entry
from scripts import reproduce_figures
from scripts.reproduce_figures import ROOT, SUFFIXES

EXPERIMENT = """
import json, sys
from pathlib import Path

name, behaviour, _, out, resume = sys.argv[1:]
assert resume == "--resume"
out = Path(out.removeprefix("--out="))
out.mkdir(exist_ok=True)
with (out / "runs").open("a") as file:
    file.write("run ")
print("begins", flush=True)
if behaviour == "fails":
    sys.exit("error: no numbers today")
(out / "summary.json").write_text(json.dumps({"right": 0.5}))
for suffix in (".png", ".pdf", ".csv"):
    (out / ("drawn" + suffix)).write_text(name)
"""


@dataclasses.dataclass(frozen=True)
class Program(Entry):
    """An entry whose experiment is the program above."""

    script: str = ""
    behaviour: str = ""

    def command(self, preset):
        return [self.script, self.shows, self.behaviour, f"--preset={preset}"]


@pytest.fixture
def entries(monkeypatch, tmp_path_factory):
    """Makes the entries those that are given, by name and behaviour."""
    script = tmp_path_factory.mktemp("script") / "experiment.py"
    script.write_text(EXPERIMENT)

    def give(**behaviours):
        programs = {
            name: Program(
                shows=name,
                experiment=name,
                figure="drawn",
                minutes=1.0,
                claim="a claim",
                holds=lambda summary: summary["right"] > 0.4,
                numbers=lambda summary: {"right": summary["right"]},
                paper={"right": 0.6},
                script=str(script),
                behaviour=behaviour,
            )
            for name, behaviour in behaviours.items()
        }
        monkeypatch.setattr(reproduce_figures, "ENTRIES", programs)
        monkeypatch.setattr(reproduce_figures, "OF_THE_PAPER", programs)
        monkeypatch.setattr(reproduce_figures, "OF_OUR_OWN", {})

    return give


def row_of(name, out):
    rows = (out / "figures.md").read_text().splitlines()
    (row,) = [row for row in rows if row.startswith((f"| {name} ", f"| [{name}]"))]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_one_that_fails_is_told_and_the_others_are_drawn_once(entries, tmp_path, capsys):
    out = tmp_path / "out"
    entries(one="draws", two="fails", three="draws")
    with pytest.raises(SystemExit, match="error: 1 of 3 failed: two"):
        reproduce_figures.main([f"--out={out}"])
    printed = capsys.readouterr().out
    assert f"[2/3] two: FAILED with exit status 1; the end of {out / 'two.log'}:" in printed
    assert "    error: no numbers today\n" in printed
    for name in ("one", "three"):
        for suffix in SUFFIXES:
            assert (out / "figures" / f"{name}{suffix}").read_text() == name
        link, _, seconds, numbers, paper, verdict = row_of(name, out)
        assert link == f"[{name}](figures/{name}.png)"
        assert seconds.endswith(" s")
        assert (numbers, paper, verdict) == ("right 0.5", "right 0.6; a claim", "holds")
    assert row_of("two", out)[2:] == ["not finished", "", "right 0.6; a claim", ""]

    entries(one="draws", two="draws", three="draws")
    reproduce_figures.main([f"--out={out}"])
    assert "[1/3] one: finished\n[2/3] two: " in capsys.readouterr().out
    assert [(out / name / "runs").read_text() for name in ("one", "two", "three")] == ["run ", "run run ", "run "]
    assert row_of("two", out)[5] == "holds"


def test_what_has_another_command_now_runs_again(entries, tmp_path):
    entries(one="draws")
    reproduce_figures.main([f"--out={tmp_path}"])
    reproduce_figures.main([f"--out={tmp_path}", "--preset=smoke"])
    assert (tmp_path / "one" / "runs").read_text() == "run run "
    assert row_of("one", tmp_path)[5] == "-"


def test_what_has_no_folder_any_more_runs_again(entries, tmp_path):
    entries(one="draws")
    reproduce_figures.main([f"--out={tmp_path}"])
    shutil.rmtree(tmp_path / "one")
    reproduce_figures.main([f"--out={tmp_path}"])
    assert (tmp_path / "one" / "runs").read_text() == "run "


def test_a_summary_of_another_version_is_told(entries, tmp_path):
    entries(one="draws", two="draws")
    reproduce_figures.main([f"--out={tmp_path}"])
    (tmp_path / "one" / "summary.json").write_text("{}")
    reproduce_figures.main([f"--out={tmp_path}"])
    assert row_of("one", tmp_path)[3].endswith("is of another version ('right'): delete the folder one")
    assert row_of("two", tmp_path)[5] == "holds"


def test_some_of_them(entries, tmp_path, capsys):
    entries(one="draws", two="draws", three="draws")
    reproduce_figures.main([f"--out={tmp_path}", "--only=three,one"])
    assert "[1/2] three" in capsys.readouterr().out
    assert row_of("two", tmp_path)[2] == "not finished"
    assert not (tmp_path / "two").exists()
    with pytest.raises(SystemExit, match="error: unknown figure 'four'; known: one, two, three"):
        reproduce_figures.main([f"--out={tmp_path}", "--only=one,four"])


def test_a_record_that_is_cut_short_is_told(entries, tmp_path):
    entries(one="draws")
    reproduce_figures.main([f"--out={tmp_path}"])
    (tmp_path / "figures" / "one.json").write_text("{")
    with pytest.raises(SystemExit, match=r"error: .*one\.json is not valid JSON"):
        reproduce_figures.main([f"--out={tmp_path}"])


def test_two_at_a_time_are_refused(entries, tmp_path):
    entries(one="draws")
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="error: another process is drawing into"):
            reproduce_figures.main([f"--out={tmp_path}"])
    assert not (tmp_path / "one").exists()


def test_the_list(capsys):
    reproduce_figures.main(["--list", "--preset=demo", "--only=hypospace_voxels"])
    assert capsys.readouterr().out == (
        "hypospace_voxels: Table 2, voxels: recovery, 31 min\n"
        "    python -m experiments.hypospace --preset=demo '--tasks=hypospace_voxels(blocks=2, fixed=True)'\n"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("_ctrl_c_is_heard")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_ends_it_ends_the_experiment_too(number, status, tmp_path):
    command = [sys.executable, "scripts/reproduce_figures.py", f"--out={tmp_path}", "--preset=smoke"]
    with subprocess.Popen(
        [*command, "--only=two_outcomes"], cwd=ROOT, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        lock = tmp_path / "two_outcomes" / ".lock"
        while not lock.exists():
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == status
    assert ("the same command goes on with what is missing" in errors) == (number == signal.SIGINT)
    with lock.open("w") as file:
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
        summary = json.loads((tmp_path / name / "summary.json").read_text())
        assert summary["complete"]
        assert entry.numbers(summary).keys() >= entry.paper.keys()
        assert isinstance(entry.holds(summary), bool)
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
    assert again.stdout.count(": finished\n") == len(ENTRIES)
    assert (tmp_path / "figures.md").read_text() == table
