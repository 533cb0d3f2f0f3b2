"""The hypergrid: a figure of what was learned."""

import dataclasses

import numpy as np
import pytest

from experiments import hypergrid
from ipsrl.records.tidy import NotRecorded, Records

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
    texts = [axes.get_title() for axes in drawing.figure.axes]
    assert texts[0].startswith("target")
    assert texts[1].startswith(f"grpo\nL1 = {np.abs(collapsed - target).sum():.3f}, per cell ")
    assert texts[2] == "ips_grpo\nL1 = 0.000, per cell 0.0000"
    for axes, name in zip(drawing.figure.axes, ("target", "grpo", "ips_grpo"), strict=False):
        image = np.ma.filled(axes.images[0].get_array(), 0)
        shown = {(row["x1"], row["x2"]): row["value"] for row in drawing.rows if row["distribution"] == name}
        assert shown == {(x1, x2): value for (x2, x1), value in np.ndenumerate(image)}
        assert len(axes.patches) == environment.modes().sum()


def test_there_is_no_figure_without_two_dimensions():
    with pytest.raises(NotRecorded, match="no array probs"):
        hypergrid.FIGURE(Records([], LABELS), SETTINGS)
