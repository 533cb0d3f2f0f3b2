import pytest

pytest.importorskip("rdkit")

from matplotlib.image import imread

from experiments.molecules.figure import CELL, draw_rows


def test_rows_of_different_length_are_drawn_in_cells(tmp_path):
    path = tmp_path / "page.png"
    draw_rows(path, {"many": [("CCO", 0.5), ("c1ccccc1", 0.9)], "one": [("CC", 0.1)]})
    picture = imread(path)
    assert picture.shape[:2] == (2 * CELL[1], 2 * CELL[0])
    first, _, third, empty = (
        picture[row * CELL[1] : (row + 1) * CELL[1], column * CELL[0] : (column + 1) * CELL[0], :3]
        for row in range(2)
        for column in range(2)
    )
    assert first.min() < 0.5
    assert third.min() < 0.5
    assert empty.min() == 1.0
