"""The hypergrid: claims by the records, and a figure of what was learned."""

import dataclasses

import numpy as np
import pytest

from experiments import hypergrid
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.study import claims

SETTINGS = dataclasses.replace(hypergrid.PRESETS["smoke"], side=4, objectives=("grpo", "ips_grpo"))
LABELS = ("dimensions", "side", "objective")


def records(seeds, dimensions=2, **measures):
    labels = {"dimensions": dimensions, "side": 8}
    return Records(
        [
            {"step": 0, **labels, "objective": objective, "seed": seed, **measures}
            for objective in ("grpo", "ips_grpo", "ips_grpo(probability=exact)")
            for seed in seeds
        ],
        LABELS,
    )


@pytest.mark.parametrize(("seeds", "held"), [((0,), None), ((0, 1), False)])
def test_claims_about_intervals_need_two_seeds(seeds, held):
    decided = claims.decided(hypergrid.CLAIMS, records(seeds, l1_total=0.9, cells_visited=64, modes_found=4))
    assert list(decided.values()) == [held, held, held, None]
    decided = claims.decided(hypergrid.CLAIMS, records(seeds, dimensions=4, l1_per_cell=0.1))
    assert list(decided.values()) == [None, None, None, held]


def test_every_cell_and_mode_is_to_be_found():
    sentence = next(sentence for sentence in hypergrid.CLAIMS if "finds every mode" in sentence)
    for measures, held in (
        ({"l1_total": 0.2, "cells_visited": 64, "modes_found": 4}, True),
        ({"l1_total": 0.2, "cells_visited": 63, "modes_found": 4}, False),
        ({"l1_total": 0.2, "cells_visited": 64, "modes_found": 3}, False),
        ({"l1_total": 0.3, "cells_visited": 64, "modes_found": 4}, False),
    ):
        assert hypergrid.CLAIMS[sentence](records((0, 1), **measures)) is held


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
