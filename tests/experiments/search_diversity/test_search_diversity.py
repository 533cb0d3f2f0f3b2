"""Settings that are refused, and a run of the smoke preset."""

import pytest

from experiments import search_diversity as study
from experiments.search_diversity import GRPO, PRIOR


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ("dapo",)}, "--arms is 'dapo', it must be one of prior, sft_diverse"),
        ({"learning_rates": (0.0,)}, r"--learning_rates is 0\.0, it must be positive"),
        ({"group_size": 1}, "--group_size is 1, it must be at least 2"),
        ({"demonstrations": 0}, "--demonstrations is 0, it must be positive"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        study.Settings(**changes)


def test_smoke(smoke):
    settings, found = smoke(study)
    assert sorted(found.where(arm=GRPO).column("step").tolist()) == [0, 0, 2, 2]
    begins = [found.where(arm=arm, step=0).column("right").tolist() for arm in settings.arms]
    assert begins[0] == begins[1]
    assert PRIOR not in settings.arms
    assert "held-out questions" in study.TABLE(found, settings)
    assert "trained questions, at each rate" in study.TABLE(found, settings)
    assert study.FIGURE(found, settings).rows
