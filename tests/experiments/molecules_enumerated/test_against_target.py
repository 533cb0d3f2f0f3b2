import numpy as np
from matplotlib.figure import Figure

from experiments.molecules_enumerated import against_target

TARGET, CLASSES = np.array([0.5, 0.3, 0.2]), np.array([1, 2, 1])
LEARNED = {"as it": TARGET, "collapsed": np.array([1.0, 0.0, 0.0]), "third": TARGET[::-1]}


def test_each_outcome_is_a_point_of_its_class_and_none_vanishes():
    figure = Figure()
    against_target.draw(figure.subfigures(), LEARNED, TARGET, CLASSES, "routes")
    axes = figure.axes
    assert [panel.get_title() for panel in axes] == list(LEARNED)
    for panel, probs in zip(axes, LEARNED.values(), strict=True):
        _, ones, twos = panel.get_lines()
        for points, of in ((ones, CLASSES == 1), (twos, CLASSES == 2)):
            np.testing.assert_array_equal(points.get_xdata(), TARGET[of])
            np.testing.assert_array_equal(points.get_ydata(), np.maximum(probs[of], 0.02))
        assert panel.get_ylim()[0] < 0.02
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == ["1", "2"]


def test_rows_are_what_was_learned():
    rows = against_target.rows(LEARNED, TARGET, CLASSES, "routes", ("a", "b", "c"))
    assert len(rows) == 9
    assert rows[3] == {
        "measure": "probability", "objective": "collapsed", "outcome": "a", "routes": 1, "target": 0.5, "value": 1.0,
    }  # fmt: skip
