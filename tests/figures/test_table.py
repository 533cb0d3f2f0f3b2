"""The numbers beside a figure: rows as they are meant, and files that read back to the last digit."""

import csv

import numpy as np
import pytest

from ipsrl.figures import table
from ipsrl.measures.seeds import Interval, mean_over_seeds


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_curve_has_a_row_for_each_point():
    interval = Interval(np.array([0.5, 2.0]), np.array([0.0, 1.0]), np.array([1.0, 3.0]), seeds=2)
    assert table.curve({"objective": "grpo"}, interval, update=[0, 10]) == [
        {"objective": "grpo", "update": 0, "value": 0.5, "low_95": 0.0, "high_95": 1.0, "seeds": 2},
        {"objective": "grpo", "update": 10, "value": 2.0, "low_95": 1.0, "high_95": 3.0, "seeds": 2},
    ]
    assert table.curve({}, [0.5], k=[1]) == [{"k": 1, "value": 0.5}]
    with pytest.raises(ValueError, match="zip"):
        table.curve({}, interval, update=[0])


def test_files_read_back_exactly(tmp_path):
    third = np.float64(1) / 3
    rows = [{"name": "a, b", "value": third}, {"name": "c", "kept": np.bool_(True), "value": np.int64(7)}]
    table.write(tmp_path / "data.csv", rows)
    back = read(tmp_path / "data.csv")
    assert back == [
        {"name": "a, b", "value": "0.3333333333333333", "kept": ""},
        {"name": "c", "value": "7", "kept": "True"},
    ]
    assert float(back[0]["value"]) == third
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_what_is_not_finite_is_blank(tmp_path):
    one_seed = table.point(mean_over_seeds(np.array([0.5])))
    table.write(tmp_path / "data.csv", [one_seed, table.point(Interval(np.inf, 0.0, 1.0, 3))])
    assert read(tmp_path / "data.csv") == [
        {"value": "0.5", "low_95": "", "high_95": "", "seeds": "1"},
        {"value": "", "low_95": "0.0", "high_95": "1.0", "seeds": "3"},
    ]


def test_a_figure_without_numbers_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no numbers to write to .*data\.csv"):
        table.write(tmp_path / "data.csv", [])
    assert not list(tmp_path.iterdir())
