import dataclasses

from ipsrl import study
from ipsrl.records.tidy import Records


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    steps: int = 9


def test_a_grid_has_a_column_for_each_value_of_a_label():
    rows = [
        {"side": "exact", "objective": name, "k": k, "step": 9, "time": 10.0 * k, "word": "collapses"}
        for name, k in (("grpo", 1), ("grpo", 8), ("gppo", 8))
    ]
    records = Records([*rows, {"side": "sampled", "objective": "grpo", "k": 1, "step": 9}], ("side", "objective", "k"))
    grid = study.Grid("time", "k", {"side": "exact"}, "after {steps} steps")
    assert grid(records, Settings()).splitlines() == [
        "after 9 steps",
        "objective  k = 1  k = 8",
        "grpo       10     80",
        "gppo              80",
    ]
    assert "grpo       collapses  collapses" in study.Grid("word", "k")(records, Settings())
