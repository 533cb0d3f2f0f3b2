"""Which curves the study has, and that all of it runs."""

import pytest

from experiments import hybrid_addition as study
from experiments.hybrid_addition import COMPETENT, THINKING, WEAK


def test_only_some_arms_begin_with_a_competent_short_mode():
    found = [curve.labels for curve in study.curves(study.PRESETS["demo"])]
    assert {labels["arm"] for labels in found if labels["prior"] == COMPETENT} == set(study.CONTROLLED)
    assert {labels["arm"] for labels in found if labels["prior"] == WEAK} == {*study.NAMES, THINKING}
    assert {labels["learning_rate"] for labels in found} == set(study.RATES)


def test_a_small_run_measures_both_modes(smoke):
    _, found = smoke(study)
    assert found.distinct("step") == [0, 1]
    levels = [found.curve(f"thinking_{level}")[1] for level in (1, 2, 3, 4)]
    assert sum(levels) / 4 == pytest.approx(found.curve("thinking")[1])
