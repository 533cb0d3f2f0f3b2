import dataclasses

import numpy as np

from experiments import survival_map
from experiments.survival_map import PRESETS
from ipsrl.records.tidy import Records
from tests.experiments.recorded import made_up, recorded

LABELS = ("rule", "alpha", "group_size")


def a_map(survivors):
    """Two group sizes with borders 2 and 1, three exponents; `[alpha, size]`, of four seeds those that survive."""
    cells = {}
    for row, alpha in enumerate((0.0, 1.0, 1.5)):
        for column, (size, border) in enumerate(((2, 2.0), (4, 1.0))):
            survived = (np.arange(4) < survivors[row][column]).astype(int)
            theory = {"critical_alpha": border, "second_at_rest": 0.1 * (alpha > border)}
            cells["no baseline", alpha, size] = theory | {"second": 0.1 * survived, "survived": survived}
    return made_up(LABELS, cells)


def all_beyond(records):
    return [survival_map.beyond(cell) for _, cell in records.each()]


def test_cells_on_the_border_are_on_no_wrong_side():
    assert not any(all_beyond(a_map([[0, 0], [0, 4], [1, 4]])))
    alive = a_map([[4, 4], [4, 4], [4, 4]])
    np.testing.assert_allclose(all_beyond(alive), [2.0, 1.0, 1.0, 0.0, 0.5, 0.0])


def test_the_share_of_wrong_cells_is_that_of_each_seed():
    np.testing.assert_allclose(survival_map.share_wrong(a_map([[0, 1], [0, 3], [3, 4]])), [2 / 6, 1 / 6, 1 / 6, 0])


def test_what_survives_where_no_exponent_helps_is_wrong_by_infinity():
    rows = [row | {"critical_alpha": float("nan")} for row in a_map([[0, 0], [0, 0], [4, 0]]).rows]
    assert all_beyond(Records(rows, LABELS)) == [0, 0, 0, 0, np.inf, 0]


def test_the_table_counts_by_rule():
    table = survival_map.TABLE(a_map([[0, 0], [0, 0], [3, 4]]), PRESETS["demo"])
    last = table.splitlines()[-1].split("  ")
    cells = [cell.strip() for cell in last if cell]
    assert cells == ["no baseline", "1 of 6", "0.50", "0.0000", "0.0750"]


def test_figure_crosses_out_cells_and_draws_the_border(tmp_path):
    records = a_map([[0, 0], [0, 0], [4, 4]])
    rules = [
        dataclasses.replace(records, rows=[row | {"rule": rule} for row in records.rows])
        for rule in survival_map.COUNT_RULES
    ]
    every = dataclasses.replace(records, rows=[row for rule in rules for row in rule.rows])
    drawing = survival_map.FIGURE(every, PRESETS["demo"])
    above = drawing.figure.axes[0]
    border, _, crosses = above.lines
    # Exponent 2 is beyond the map; 1 is its second row.
    np.testing.assert_array_equal(border.get_ydata(), [np.nan, 1])
    np.testing.assert_array_equal(crosses.get_xydata(), [[0, 2]])
    assert "20,000 updates of size 0.05" in drawing.caption
    assert {row["measure"] for row in drawing.rows} == {"survived", "second"}


def test_the_weaker_outcome_survives_above_the_border(smoke):
    _, records = smoke(survival_map)
    cells = [(labels, cell) for labels, cell in records.each()]
    assert len(cells) == 3 * 4 * 8
    assert {cell.column("survived").mean() for _, cell in cells} >= {0.0, 1.0}
    for _, rows in records.each("rule"):
        wrong = np.array(all_beyond(rows))
        assert max(wrong) < 0.1
        assert np.mean(wrong > 0) < 0.1
        off = [abs(cell.mean("second") - cell.mean("second_at_rest")) for _, cell in rows.each()]
        assert np.median(off) < 0.002


def test_a_floor_above_the_better_share_of_the_reward_loses_the_weaker_outcome_in_every_group(tmp_path):
    changed = {"group_sizes": (4, 16), "lowest_alpha": 0.5, "highest_alpha": 1.0, "alphas": 2, "seeds": (0, 1, 2, 3)}
    records = recorded(survival_map, dataclasses.replace(PRESETS["demo"], floor=0.3, **changed), tmp_path / "out")
    assert not records.column("survived").any()
