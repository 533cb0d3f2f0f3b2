import dataclasses

import numpy as np
import pytest

from experiments import molecules_enumerated
from experiments.molecules_enumerated import PRESETS, SGD
from ipsrl.environments.molecules.reactions import Reactions
from ipsrl.records.tidy import Records


def test_each_product_is_a_point_and_none_vanishes():
    pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')
    settings = dataclasses.replace(PRESETS["demo"], sharpness=2.0)
    target = Reactions(sharpness=2.0).outcome_space(0).target
    learned = {"as it": target, "collapsed": np.eye(len(target))[0], "third": target[::-1]}
    labels = [{"objective": name, "training": SGD} for name in learned]
    rows = [each | {"step": step, "total_variation": 0.5} for each in labels for step in (0, 1)]
    arrays = [(each, {"probs": probs}) for each, probs in zip(labels, learned.values(), strict=True)]
    drawing = molecules_enumerated.FIGURE(Records(rows, ("objective", "training"), arrays), settings)
    _, *panels, _ = drawing.figure.axes
    assert [axes.get_title() for axes in panels] == list(learned)
    for axes, probs in zip(panels, learned.values(), strict=True):
        (points,) = axes.collections
        np.testing.assert_allclose(points.get_offsets(), np.stack([target, np.maximum(probs, target.min() / 10)], 1))
    shown = [row["value"] for row in drawing.rows if row["measure"] == "probability"]
    np.testing.assert_allclose(shown, np.concatenate(list(learned.values())))
