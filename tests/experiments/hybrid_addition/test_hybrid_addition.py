"""Which curves the study has, and that all of it runs."""

import pytest

from experiments import hybrid_addition as study
from experiments.hybrid_addition import COMPETENT, FORCED_GRPO, THINKING, WEAK


def test_only_some_arms_begin_with_a_competent_short_mode():
    found = [curve.labels for curve in study.curves(study.PRESETS["demo"])]
    assert {labels["arm"] for labels in found if labels["prior"] == COMPETENT} == set(study.CONTROLLED)
    assert {labels["arm"] for labels in found if labels["prior"] == WEAK} == {*study.NAMES, THINKING}
    assert {labels["learning_rate"] for labels in found} == set(study.RATES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ("forced_dapo",)}, "forced_dapo"),
        ({"priors": ("strong",)}, "--priors is 'strong', it must be one of weak, competent"),
        ({"learning_rates": (0.0,)}, r"--learning_rates is 0\.0, it must be positive"),
        ({"problems": 145}, "--problems is 145, it must lie between 4 and 144"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        study.Settings(**changes)


def test_groups_that_cannot_be_halved_are_refused():
    settings = study.Settings(arms=(FORCED_GRPO,), group_size=6)
    with pytest.raises(
        ValueError, match=r"group_size is 6, it must be a multiple of 4, because AdditionModes\(.*forced='half'\)"
    ):
        list(study.curves(settings))


def test_a_small_run_measures_both_modes(smoke):
    settings, found = smoke(study)
    assert found.distinct("step") == [0, 1]
    levels = [found.curve(f"thinking_{level}")[1] for level in (1, 2, 3, 4)]
    assert sum(levels) / 4 == pytest.approx(found.curve("thinking")[1])
    assert study.TABLE(found, settings).startswith("weak short mode")
    assert study.FIGURE(found, settings).rows
