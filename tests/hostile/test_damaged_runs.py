"""Readers of runs go on beside a damaged one, and say in one line on stderr what they leave out."""

import json
import os

import pytest

from scripts import report, results
from tests.hostile.damage import cut, folder_in_place_of, holds, in_place_of, missing
from tests.records.report.run_folders import write_run

CONFIG, STARTS, METRICS, SUMMARY = "config.json", "environment.json", "metrics.jsonl", "summary.json"
LISTS = ("outcomes.jsonl", "completions.jsonl", "warnings.jsonl")


def link_in_place_of(name):
    def damage(run):
        (run / name).rename(run.parent.parent / name)
        (run / name).symlink_to(f"../../{name}")

    return damage


def a_line_of_another_kind(name):
    return lambda run: (run / name).write_text("[1]\n" + (run / name).read_text())


BOTH = {
    "no config": (missing(CONFIG), CONFIG),
    "a config that is a folder": (folder_in_place_of(CONFIG), CONFIG),
    "a config that is a number": (holds(CONFIG, b"3"), CONFIG),
    "a config that is nested too deeply": (holds(CONFIG, b"[" * 100_000), CONFIG),
    "a summary that is a list": (holds(SUMMARY, b"[1]"), SUMMARY),
    "a summary that is cut": (cut(SUMMARY), SUMMARY),
    "metrics that are a folder": (folder_in_place_of(METRICS), METRICS),
    "metrics that are cut": (cut(METRICS), METRICS),
    "metrics that are nested too deeply": (holds(METRICS, b'{"step": 1, "x": ' + b"[" * 100_000 + b"\n"), METRICS),
    **{f"{name} is a pipe": (in_place_of(name, os.mkfifo), name) for name in (CONFIG, STARTS, METRICS, SUMMARY)},
    **{f"{name} is a link": (link_in_place_of(name), name) for name in (CONFIG, STARTS, METRICS, SUMMARY)},
    "metrics with a line of another kind": (a_line_of_another_kind(METRICS), METRICS),
}
REPORTED = {
    "starts that are a number": (holds(STARTS, b"3"), STARTS),
    **{f"{name} is a folder": (folder_in_place_of(name), name) for name in LISTS},
    **{f"{name} is cut": (cut(name, 0.95), name) for name in LISTS},
    **{f"{name} has a line of another kind": (a_line_of_another_kind(name), name) for name in LISTS},
}
HARMLESS = {
    "labels that are a number": holds("labels.json", b"3"),
    "labels that are cut": holds("labels.json", b"["),
    "changes that are a folder": folder_in_place_of("uncommitted.diff"),
    "a picture that is a folder": folder_in_place_of("figure.png"),
}


@pytest.fixture
def runs(tmp_path):
    for name in ("sound", "damaged"):
        write_run(tmp_path / "runs" / name, warnings=["a warning"])
    return tmp_path / "runs"


def said(capsys, name):
    """The one line on stderr."""
    (line,) = capsys.readouterr().err.splitlines()
    assert "damaged" in line
    assert name in line
    assert len(line) < 500


@pytest.mark.parametrize("damage", BOTH | REPORTED)
def test_a_report_says_the_damage(damage, runs, capsys):
    harm, name = (BOTH | REPORTED)[damage]
    harm(runs / "damaged")
    report.main([str(runs)])
    said(capsys, name)
    assert (runs / "report.html").stat().st_size > 1_000_000


@pytest.mark.parametrize("damage", BOTH)
def test_results_say_the_damage(damage, runs, capsys):
    harm, name = BOTH[damage]
    harm(runs / "damaged")
    command = [str(runs), "--skip_damaged", "--format=json", "--sql=select path from runs"]
    results.main([*command, f"--out={runs}/answer.json"])
    kept = [row["path"] for row in json.loads((runs / "answer.json").read_text())]
    assert kept[-1] == f"{runs}/sound"
    said(capsys, name)


@pytest.mark.parametrize(
    ("script", "argument", "message"),
    [
        (report, "--out=\udcff.html", r"--out '\\udcff.html' is not in UTF-8; choose another"),
        (report, "--title=\udcff", r"--title '\\udcff' is not in UTF-8; choose another"),
        (results, "--out=\udcff", r"--out '\\udcff' is not in UTF-8; choose another"),
        (results, "--out={runs}", "--out={runs} is a folder; it must be a file"),
        (results, "--sql=select '\udcff'", "--sql .* is not in UTF-8; choose another"),
        (results, "--parquet=\udcff", "--parquet .* is not in UTF-8; choose another"),
        (results, "--out={runs}/sound/deep/x.txt", "--out={runs}/sound/deep/x.txt lies in the folder of a run, .*"),
    ],
)
def test_outputs_that_cannot_be_are_refused(script, argument, message, runs):
    (runs / "file").write_text("precious")
    (runs / "sound" / "deep").mkdir()
    before = {path: path.is_file() and path.read_bytes() for path in runs.rglob("*")}
    with pytest.raises(SystemExit, match=f"^error: {message.replace('{runs}', str(runs))}$"):
        script.main([str(runs), argument.replace("{runs}", str(runs))])
    assert {path: path.is_file() and path.read_bytes() for path in runs.rglob("*")} == before


@pytest.mark.parametrize("change", HARMLESS)
def test_what_no_reader_needs_is_left_aside(change, runs, capsys):
    HARMLESS[change](runs / "damaged")
    report.main([str(runs)])
    results.main([str(runs)])
    assert capsys.readouterr().err == ""
