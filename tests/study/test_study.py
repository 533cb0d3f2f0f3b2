"""The frame of all studies: curves are recorded one by one, resumed, and judged from their records alone."""

import csv
import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from ipsrl import study
from ipsrl.command import extensions
from ipsrl.measures.seeds import Interval
from ipsrl.records import metric_log
from ipsrl.records.tidy import EXACT
from ipsrl.study import catalog, claims, recording
from ipsrl.study.study import Study, run, run_vmapped
from tests.study import small_study

DRAWN = Study.of(small_study)
SMALL = dataclasses.replace(DRAWN, figure=None)


@pytest.fixture(autouse=True)
def _count_anew():
    small_study.COMPUTED.clear()


def compute(path, settings=None, preset="demo", resume=False, which=SMALL):
    run(which, settings or small_study.PRESETS[preset], preset, study.Output(path, resume))


def test_it_writes_everything_and_says_what_holds(tmp_path, capsys):
    compute(tmp_path / "out", which=DRAWN)
    table, *lines = capsys.readouterr().out.split("\nsupported: ")
    assert [line.split() for line in table.splitlines()] == [
        ["name", "power", "height", "place", "word"],
        ["x^1", "1", "4.02", "[4,", "4.04]", "2", "power"],
        ["x^2", "2", "16", "[16,", "16]", "2", "power"],
    ]
    assert lines == [
        "squares end higher\nrefuted: lines end higher\nundecided: cubes end higher still "
        "(there is no record of height with {'power': 3.0})\n"
        f"figure: {tmp_path}/out/small_study.png\n"
    ]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["complete"]
    assert summary["claims"] == dict(zip(small_study.CLAIMS, [True, False, None], strict=True))
    assert summary["verdict"] == "refuted"
    assert summary["paper"]["square"]["paper"] == 16.0
    ours, half = summary["paper"]["square"]["ours"], 2.7764 * 0.0158114 / np.sqrt(5)
    assert ours == pytest.approx({"mean": 16.02, "low": 16.02 - half, "high": 16.02 + half, "seeds": 5}, abs=1e-6)
    square = summary["decisive"]["squares end higher"]
    assert square["of"] == "(height of power 2.0 - height of power 1.0)"
    assert (square["mean"], square["seeds"]) == (pytest.approx(12.0), 5)
    assert list(summary["numbers"]) == ["square"]
    assert summary["final"][1] == {
        "name": "x^2",
        "power": 2.0,
        "height": summary["paper"]["square"]["ours"],
        "place": {"mean": 2.0, "low": 2.0, "high": 2.0, "seeds": 5},
        "word": ["power"] * 5,
    }
    drawn = imread(tmp_path / "out" / "small_study.png")[..., :3]
    assert 0.02 < np.mean(np.any(drawn < 0.95, axis=-1)) < 0.9
    assert (tmp_path / "out" / "small_study.pdf").read_bytes().startswith(b"%PDF")
    with (tmp_path / "out" / "small_study.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"measure": "height", "name": "x^2", "value": "16.02"}.items() <= rows[9].items()


def test_a_finished_study_computes_nothing_again_and_prints_the_same(tmp_path, capsys):
    compute(tmp_path)
    (tmp_path / "environment.json").unlink()
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.suffix in (".json", ".jsonl")}
    printed = capsys.readouterr().out
    compute(tmp_path, resume=True)
    assert small_study.COMPUTED == [1.0, 2.0]
    assert capsys.readouterr().out == printed
    assert {path: path.read_bytes() for path in before} == before


def test_what_is_asked_for_later_is_added(tmp_path):
    compute(tmp_path)
    more = dataclasses.replace(small_study.PRESETS["demo"], powers=(2.0, 3.0))
    compute(tmp_path, more, resume=True)
    assert small_study.COMPUTED == [1.0, 2.0, 3.0]
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert list(summary["claims"].values()) == [None, None, True]
    assert len(metric_log.read(tmp_path / "metrics.jsonl")) == 3 * 5 * 5


@pytest.mark.parametrize("lines", [1, 24, 25, 26, 49])
def test_a_killed_study_goes_on_with_the_first_curve_that_may_be_incomplete(lines, tmp_path):
    compute(tmp_path / "whole")
    compute(tmp_path / "killed")
    (tmp_path / "killed" / "summary.json").unlink()
    whole = (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "killed" / "metrics.jsonl").write_text("".join(whole[:lines]) + whole[lines][:9])
    small_study.COMPUTED.clear()
    compute(tmp_path / "killed", resume=True)
    assert ([1.0, 2.0] if lines <= 25 else [2.0]) == small_study.COMPUTED
    assert (tmp_path / "killed" / "metrics.jsonl").read_text() == "".join(whole)


def test_arrays_are_kept_for_figures(tmp_path):
    settings = small_study.PRESETS["demo"]
    with recording.RunFolder.open(tmp_path, {}) as folder:
        records = recording.record(list(small_study.curves(settings)), folder, None)
    np.testing.assert_array_equal(records.array("path", power=2.0), [0, 1, 4, 9, 16])
    with pytest.raises(LookupError, match="there is no array height"):
        records.array("height")


def test_arrays_are_not_written_through_a_link(tmp_path):
    first = next(small_study.curves(small_study.PRESETS["demo"]))
    (tmp_path / "elsewhere").write_text("precious")
    with recording.RunFolder.open(tmp_path / "out", {}) as folder:
        path = first.arrays_path(folder.path)
        path.parent.mkdir()
        for planted in (path, path.with_suffix(".tmp")):
            planted.symlink_to(tmp_path / "elsewhere")
        recording.record([first], folder, None)
    assert (tmp_path / "elsewhere").read_text() == "precious"
    assert path.stat().st_size > 0


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"no array"])
def test_damaged_arrays_are_named(tmp_path, content):
    compute(tmp_path)
    (path, *_) = sorted((tmp_path / "arrays").iterdir())
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{re.escape(path.name)} is damaged \(.*\): choose another --out"):
        compute(tmp_path, resume=True)


def test_a_smoke_run_decides_nothing(tmp_path, capsys):
    compute(tmp_path, preset="smoke")
    printed = capsys.readouterr().out
    assert "preset smoke: no claim is decided" in printed
    assert "undecided: cubes end higher still (there is no record of height with {'power': 3.0})\n" in printed
    assert "supported: " not in printed
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert set(summary["claims"].values()) == {None}
    assert summary["verdict"] == ""


def test_many_settings_together_leave_what_each_would_leave_alone(tmp_path, monkeypatch):
    settings = [dataclasses.replace(small_study.PRESETS["demo"], seeds=(seed, seed + 1)) for seed in (0, 7)]
    alike = dataclasses.replace(SMALL, vmapped=("seeds",))
    monkeypatch.setattr(small_study, "vmapped", lambda many, outputs: map(small_study.curves, many), raising=False)
    outputs = [study.Output(tmp_path / str(number), False) for number in range(2)]
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "other").touch()
    ends = run_vmapped(alike, settings, ["demo"] * 2, outputs)
    assert "holds 'other' but no config.json" in str(ends[0])
    assert ends[1] is None
    compute(tmp_path / "alone", settings[1])
    for name in ("metrics.jsonl", "summary.json"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    with pytest.raises(ValueError, match=r"may differ in seeds, but steps is 4 and 9"):
        run_vmapped(alike, [settings[0], dataclasses.replace(settings[1], steps=9)], ["demo"] * 2, outputs)
    with pytest.raises(ValueError, match="give the settings of one run at least"):
        run_vmapped(alike, [], [], [])


def test_curves_have_labels_of_their_own(tmp_path):
    twice = dataclasses.replace(small_study.PRESETS["demo"], powers=(2.0, 2.0))
    with pytest.raises(ValueError, match="x\\^2, power = 2 is given twice: give it once"):
        compute(tmp_path, twice)
    with pytest.raises(ValueError, match="there is nothing to compute"):
        recording.require_distinct([])
    # Nor has one all labels of another.
    pair = [study.Curve({"a": 1}, None), study.Curve({"b": 2, "a": 1}, None)]
    for curves in (pair, pair[::-1]):
        with pytest.raises(ValueError, match="is given twice"):
            recording.require_distinct(curves)


@pytest.mark.parametrize(
    ("held", "ours", "expected"),
    [
        ({"a": True}, 0.03, "supported"),
        ({"a": True, "b": None}, 0.05, "supported, 1 undecided, other numbers for x"),
        ({"a": True, "b": False}, 0.03, "refuted"),
        ({"a": None}, 0.03, "undecided"),
    ],
)
def test_a_verdict_is_about_claims_and_the_papers_numbers(held, ours, expected):
    number = {"x": Interval(ours, ours, ours, EXACT)}
    assert claims.verdict(held, number, {"x": 0.028, "not asked for": 3.0}) == expected


def test_a_number_of_the_paper_wants_one_of_ours(monkeypatch):
    monkeypatch.setattr(small_study, "PAPER", {"cubes": 1.0})
    with pytest.raises(ValueError, match="has a number of the paper for 'cubes', but none of its own"):
        Study.of(small_study)


def test_digits():
    shown = [claims.digits(number) for number in (0.0276, 2053.7, 1 / 3, math.nan, -1234.5)]
    assert shown == ["0.0276", "2,054", "0.333", "none", "-1,234"]


def test_a_study_is_a_module_with_presets_and_curves():
    with pytest.raises(ValueError, match="is not a study: its module has no PRESETS"):
        Study.of(claims)
    assert Path(small_study.__file__).stem == SMALL.name


def test_a_module_with_the_name_of_the_package_has_no_studies(monkeypatch):
    monkeypatch.setattr(catalog, "PACKAGE", "calendar")
    assert catalog.names() == list(extensions.STUDIES)


def test_a_study_of_a_folder_is_not_run_by_the_path_of_its_file():
    with pytest.raises(SystemExit, match=r"runs by its name, python -m experiments\.NAME"):
        study.main(None)
