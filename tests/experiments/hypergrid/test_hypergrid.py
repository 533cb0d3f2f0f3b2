import dataclasses

import numpy as np
import pytest

from experiments import hypergrid
from ipsrl.records.tidy import Records

SETTINGS = dataclasses.replace(hypergrid.PRESETS["smoke"], side=4, objectives=("grpo", "ips_grpo"))
LABELS = ("dimensions", "side", "objective")


def test_the_figure_shows_target_and_first_seeds():
    environment = SETTINGS.grid(2)
    target = hypergrid.target_probs(environment)
    collapsed = np.eye(16)[3]
    arrays = [
        ({"dimensions": 2, "side": 4, "objective": objective, "seed": seed}, {"probs": probs})
        for objective, first in (("grpo", collapsed), ("ips_grpo", target))
        for seed, probs in ((0, first), (1, np.full(16, np.nan)))
    ]
    drawing = hypergrid.FIGURE(Records([], LABELS, arrays), SETTINGS)
    panels = [axes for axes in drawing.figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == ["target", "grpo", "ips_grpo"]
    for axes, probs in zip(panels, (target, collapsed, target), strict=True):
        cells = np.log10(np.maximum(probs, target.min() / 3)).reshape(4, 4)
        np.testing.assert_allclose(axes.images[0].get_array(), cells.T)
        shown = {
            (row["x1"], row["x2"]): row["value"] for row in drawing.rows if row["distribution"] == axes.get_title()
        }
        assert shown == pytest.approx(dict(np.ndenumerate(cells)))
        assert len(axes.patches) == environment.modes().sum()
