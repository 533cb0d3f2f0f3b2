"""Settings that are refused, and a run of the smoke preset."""

import pytest

from experiments import search_strata as study
from experiments.search_strata import EXACT, SAMPLED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ("dapo",)}, "--arms is 'dapo', it must be one of grpo, san"),
        ({"regimes": ("none",)}, "--regimes is 'none', it must be one of equal, longer, shorter"),
        ({"learning_rates": (0.0,)}, r"--learning_rates is 0\.0, it must be positive"),
        ({"group_size": 1}, "--group_size is 1, it must be at least 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        study.Settings(**changes)


def test_smoke(smoke):
    settings, found = smoke(study)
    exact, runs = found.where(part=EXACT), found.where(part=SAMPLED)
    assert exact.column("better").tolist() == pytest.approx([0.5] * (settings.updates + 1), abs=1e-4)
    assert sorted(runs.column("step").tolist()) == [0, 0, 2, 2]
    assert ((runs.column("reward") > 0.2) & (runs.column("reward") < 0.8)).all()
    assert "two strata, exact" in study.TABLE(found, settings)
    assert study.FIGURE(found, settings).rows
