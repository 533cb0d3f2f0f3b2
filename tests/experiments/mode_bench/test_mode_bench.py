"""Settings that are refused, and a run of the smoke preset."""

import pytest

from experiments import mode_bench as study


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"domains": ("countdown",)}, "--domains is 'countdown', it must be one of graph_coloring, factors"),
        ({"level": 6}, "--level is 6, it must lie between 1 and 5"),
        ({"seeds": (0,)}, "--seeds"),
        ({"answers": 1}, "--answers is 1, it must be at least 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        study.Settings(**changes)


def test_smoke(smoke):
    settings, found = smoke(study)
    assert sorted(found.column("step").tolist()) == [0, 0, 1, 1, 2, 2]
    assert "held-out problems" in study.TABLE(found, settings)
    assert study.FIGURE(found, settings).rows
