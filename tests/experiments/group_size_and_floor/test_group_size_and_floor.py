import dataclasses

import pytest

from experiments import group_size_and_floor
from experiments.group_size_and_floor import Settings
from ipsrl.study import claims
from tests.experiments.recorded import made_up


def records(cells):
    arms = {(size, f"{floor}", floor): {"recovery": ends} for (size, floor), ends in cells.items()}
    return made_up(("group_size", "objective", "floor"), arms)


@pytest.mark.parametrize(
    ("cells", "held"),
    [
        ({(4, 0.1): (0.2, 0.3), (4, 0.25): (0.2, 0.3), (8, 0.1): (0.4, 0.4), (8, 0.25): (0.5, 0.5)}, True),
        ({(4, 0.1): (0.2, 0.3), (4, 0.25): (0.2, 0.31)}, False),
        ({(16, 0.1): (0.2,), (16, 0.25): (0.3,)}, None),
    ],
)
def test_floors_that_cannot_act_must_agree_exactly(cells, held):
    assert claims.decided(group_size_and_floor.CLAIMS, records(cells)) == {"floors up to 1/G give the same run": held}


def test_the_numbers_are_the_extremes_and_cells_that_cannot_act_are_outlined():
    found = records({(4, 0.1): (0.2, 0.3), (4, 0.25): (0.2, 0.3), (8, 0.1): (0.4, 0.4), (8, 0.25): (0.5, 0.7)})
    numbers = claims.measured(group_size_and_floor.NUMBERS, found)
    assert {label: number.mean for label, number in numbers.items()} == {
        "lowest": pytest.approx(0.25),
        "highest": pytest.approx(0.6),
    }
    drawing = group_size_and_floor.FIGURE(found, Settings())
    (axes,) = drawing.figure.axes
    assert len(axes.patches) == 3
    assert sorted(text.get_text() for text in axes.texts) == ["0.25", "0.25", "0.40", "0.60"]
    assert [row["value"] for row in drawing.rows] == pytest.approx([0.25, 0.25, 0.4, 0.6])


def test_runs_have_the_labels_of_their_cell():
    # Prompts for each of eight devices.
    settings = dataclasses.replace(group_size_and_floor.PRESETS["smoke"], answers_per_step=64)
    curves = list(group_size_and_floor.curves(settings))
    labels = [(curve.labels["group_size"], curve.labels["floor"], curve.labels["objective"]) for curve in curves]
    assert labels == [(size, floor, f"ips_grpo(floor={floor})") for size in (4, 8) for floor in (0.1, 0.2)]
