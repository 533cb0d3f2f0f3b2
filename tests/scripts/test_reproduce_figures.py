"""One command draws all missing figures, and none twice; a failure is reported and stops no other figure."""

import dataclasses
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ipsrl.command.definitions import Module
from ipsrl.records.json_files import read_json, write_json
from ipsrl.study import catalog
from ipsrl.study.pages import claim_pages
from ipsrl.study.pages.claim_pages import SUBJECTS, Headline
from ipsrl.study.study import Study, Variant
from ipsrl.sweeps.launcher import Launcher
from scripts import reproduce_figures
from scripts.reproduce_figures import SUFFIXES
from tests.hangs import HANGS

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[2]


class Theatre(Launcher):
    """Plays the studies: those named in `failing` fail, the others draw their name."""

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
                    (path / f"{run.experiment}{suffix}").write_text(run.experiment)
                write_json(path / "environment.json", [{"time": "2026-01-01T00:00:00+0000"}])
                write_json(path / "summary.json", SUMMARY | {"verdict": "supported" if run.preset == "demo" else ""})
                os.utime(path / "summary.json", times=(1767225612, 1767225612))
            yield run, folder.state(run)


THREE = ("path_multiplicity", "many_outcomes", "recovery_time")
SUMMARY = {
    "complete": True,
    "headline": "supported",
    "claims": {"it is so": True, "or not": None},
    "decisive": {"it is so": {"of": "x of a", "claimed": "above 0", "mean": 0.5, "low": 0.4, "high": 0.6, "seeds": 5}},
    "numbers": {"right": {"mean": 0.5, "low": 0.4, "high": 0.6, "seeds": 5}},
    "paper": {"right": {"ours": 0.5, "paper": 0.6}},
    "final": [],
}


@pytest.fixture
def play(monkeypatch, tmp_path):
    """Runs the command with three figures and a launcher of these tests; returns what has been played."""
    without = {name: dataclasses.replace(catalog.find(name), headline=None) for name in THREE}
    figures = {name: (study, Variant(f"the {name}")) for name, study in without.items()}
    monkeypatch.setattr(reproduce_figures.catalog, "drawn", lambda: figures)
    monkeypatch.setattr(reproduce_figures.catalog, "every", lambda: {})

    def act(*command_line, failing=()):
        theatre = Theatre(*failing)
        monkeypatch.setattr(reproduce_figures.launcher_catalog, "make", lambda text: theatre)
        try:
            reproduce_figures.main([f"--out={tmp_path / 'out'}", *command_line])
        finally:
            act.played = theatre.played
        return theatre.played

    return act


def row_of(name, out):
    rows = (out / "figures.md").read_text().splitlines()
    (row,) = [row for row in rows if row.startswith(f"| the {name} ")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def run_path(name, out):
    (path,) = (out / "runs").glob(f"{name}-*")
    return path


def test_one_that_fails_is_told_and_the_others_are_drawn_once(play, tmp_path, capsys):
    out = tmp_path / "out"
    with pytest.raises(SystemExit, match=rf"error: 1 of 3 failed: many_outcomes; see {out}/logs"):
        play(failing=["many_outcomes"])
    assert play.played == list(THREE)
    printed, errors = capsys.readouterr()
    assert re.search(r"^failed: many_outcomes-\w+, exit status 1: error: no numbers today$", printed, re.MULTILINE)
    assert errors.splitlines() == ["path_multiplicity: finished", "many_outcomes: failed", "recovery_time: finished"]
    for name in ("path_multiplicity", "recovery_time"):
        for suffix in SUFFIXES:
            assert (out / "figures" / f"{name}{suffix}").read_text() == name
        _, sentences, command, *result = row_of(name, out)
        assert sentences == "; ".join(catalog.find(name).claims)
        assert command == f"`python -m experiments.{name} --preset=demo`"
        assert result == ["12 s", "right: 0.5 [0.4, 0.6]", "right: 0.6", "supported"]
    assert row_of("many_outcomes", out)[3:] == ["not finished", "", "", ""]

    assert play() == ["many_outcomes"]
    assert row_of("many_outcomes", out)[6] == "supported"
    assert play() == []


def test_what_has_another_preset_runs_as_well(play, tmp_path):
    play()
    assert play("--preset=smoke") == list(THREE)
    assert row_of("path_multiplicity", tmp_path / "out")[6] == "-"
    assert play("--preset=demo") == []
    assert row_of("path_multiplicity", tmp_path / "out")[6] == "supported"


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda path: write_json(path / "summary.json", {"complete": True}), "KeyError"),
        (lambda path: write_json(path / "environment.json", [{"python": "3"}]), "KeyError"),
    ],
)
def test_what_cannot_be_read_any_more_is_told(damage, error, play, tmp_path):
    out = tmp_path / "out"
    play("--only", "path_multiplicity")
    path = run_path("path_multiplicity", out)
    damage(path)
    # The others run and are drawn all the same.
    assert play() == ["many_outcomes", "recovery_time"]
    assert row_of("path_multiplicity", out)[4].startswith(f"{path} cannot be read ({error}: ")
    assert row_of("path_multiplicity", out)[4].endswith(": move it away to run it again")
    assert row_of("many_outcomes", out)[6] == "supported"


def test_some_of_them(play, tmp_path):
    assert play("--only=recovery_time,path_multiplicity") == ["recovery_time", "path_multiplicity"]
    assert "the many_outcomes" not in (tmp_path / "out" / "figures.md").read_text()
    assert play("--only", "path_multiplicity, many_outcomes", "many_outcomes", "--only=recovery_time") == [
        "many_outcomes"
    ]
    with pytest.raises(SystemExit, match=f"error: unknown figure 'four'; known: {', '.join(THREE)}"):
        play("--only=path_multiplicity,four")


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
    assert "the same command continues with what is missing" in capsys.readouterr().err
    assert row_of("path_multiplicity", out)[6] == "supported"
    assert (out / "figures" / "path_multiplicity.png").exists()


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--only=verdict", "unknown figure 'verdict'; did you mean verdicts"),
        ("--launcher=locl", "unknown launcher 'locl'"),
        (f"--document={ROOT}/nothing.md", "there is no such page; write one with marks, as docs/figures.md"),
    ],
)
def test_a_wrong_flag_is_refused_before_the_imports(flag, message):
    with pytest.raises(ValueError, match=message) as early:
        Module("scripts.reproduce_figures").check(reproduce_figures.parser().parse_args([flag]))
    with pytest.raises(SystemExit) as late:
        reproduce_figures.main([flag, "--list"])
    assert late.value.code.startswith(f"error: {early.value}")


def test_every_figure_is_known_before_the_imports():
    known = ",".join(catalog.drawn())
    Module("scripts.reproduce_figures").check(reproduce_figures.parser().parse_args([f"--only={known}"]))


def test_the_list(capsys):
    reproduce_figures.main(["--list", "--preset=demo", "--only=hypospace_voxels"])
    assert capsys.readouterr().out == (
        "hypospace_voxels: Table 2, voxels: recovery\n"
        "    python -m experiments.hypospace --preset=demo '--tasks=hypospace_voxels(blocks=2, fixed=True)'\n"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("_ctrl_c_works")
def test_who_ends_it_ends_the_experiment_too(tmp_path):
    command = [sys.executable, "scripts/reproduce_figures.py", f"--out={tmp_path}", "--preset=smoke"]
    with subprocess.Popen(
        [*command, "--only=path_multiplicity"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        while not (locks := list(tmp_path.glob("runs/path_multiplicity-*/.lock"))):
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert "the same command continues with what is missing" in errors
    with locks[0].open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_page_gets_the_table_between_its_marks_and_the_pictures_it_shows(play, tmp_path):
    page, picture = tmp_path / "page.md", tmp_path / "recovery_time.png"
    page.write_text("words\n")
    with pytest.raises(SystemExit, match="lacks the marks"):
        play("--only=recovery_time", f"--document={page}")
    assert not (tmp_path / "out").exists()
    page.write_text(f"before\n{reproduce_figures.MARKS.begin}\nstale\n{reproduce_figures.MARKS.end}\nafter\n")
    picture.write_text("old")
    play("--only=recovery_time,path_multiplicity", f"--document={page}")
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "| the recovery_time |" in text
    assert "stale" not in text
    assert picture.read_text() == "recovery_time"
    assert not (tmp_path / "path_multiplicity.png").exists()
    kept = page.read_text().replace("| 12 s |", "| 13 s |")
    page.write_text(kept)
    shutil.rmtree(tmp_path / "out")
    play("--only=many_outcomes", f"--document={page}")
    assert [line for line in page.read_text().splitlines() if "the many_outcomes" not in line] == kept.splitlines()


def test_a_study_with_a_headline_gets_results_and_a_page(play, tmp_path, monkeypatch):
    (pages := tmp_path / "claims").mkdir()
    headline = Headline(SUBJECTS[0], "It is so.", "dice", ("it is so",))
    words = dict.fromkeys(("Claim", "Arms", "Expected", "Doubt"), "words") | {"Paper": "arXiv 2601.21669"}
    variants = {
        "recovery_time": Variant("the recovery_time"),
        "another": Variant("another", {"demo": {"group_size": "8"}}),
    }
    found = dataclasses.replace(catalog.find("recovery_time"), headline=headline, variants=variants)
    monkeypatch.setattr(Study, "header", property(lambda self: words))
    monkeypatch.setattr(reproduce_figures, "shrink", lambda drawn, to: None)
    monkeypatch.setattr(claim_pages, "result_path", lambda study: tmp_path / "result.json")
    figures = {name: (found, variant) for name, variant in variants.items()}
    monkeypatch.setattr(reproduce_figures.catalog, "drawn", lambda: figures)
    monkeypatch.setattr(reproduce_figures.catalog, "every", lambda: {"recovery_time": found})
    play("--only=another", f"--claims={pages}")
    assert [path.name for path in pages.iterdir()] == ["index.md"]
    play("--only=recovery_time", f"--claims={pages}")
    assert read_json(tmp_path / "result.json")["claims"]["it is so"] == {
        "verdict": "supported",
        "of": "x of a",
        "claimed": "above 0",
        "mean": 0.5,
        "low": 0.4,
        "high": 0.6,
        "seeds": 5,
    }
    page, index = ((pages / name).read_text() for name in ("recovery_time.md", "index.md"))
    assert "# It is so.\n\n**Supported** on dice ([2601.21669]" in page
    assert "| it is so | supported | 0.5 [0.4, 0.6], true if above 0: x of a, 5 seeds |" in page
    assert "Other claims: 1 undecided" in page
    row = "| [It is so.](recovery_time.md) ([2601.21669](https://arxiv.org/abs/2601.21669)) | **supported** | "
    assert row + "0.5 [0.4, 0.6], true if above 0: it is so | dice |" in index
    with pytest.raises(SystemExit, match="none is no folder: make it, or give docs/claims"):
        play("--only=recovery_time", f"--claims={tmp_path / 'none'}")


def test_studies_without_the_preset_are_left_out(play, monkeypatch):
    figures = {name: (catalog.find(name), Variant(f"the {name}")) for name in ("path_multiplicity", "transfer")}
    monkeypatch.setattr(reproduce_figures.catalog, "drawn", lambda: figures)
    assert play("--preset=paper") == ["path_multiplicity"]
    with pytest.raises(SystemExit, match="transfer has no preset paper: leave it out"):
        play("--preset=paper", "--only=transfer")
