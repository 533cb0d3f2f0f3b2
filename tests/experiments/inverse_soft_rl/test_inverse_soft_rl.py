"""Limits and settings, and that a small run measures every part."""

import dataclasses

import pytest

from experiments import inverse_soft_rl
from experiments.inverse_soft_rl import GRPO, IPS, IPS_PLAIN, PRESETS, RATIO_OF_LIMITS, SLOW, TABULAR
from ipsrl.records.tidy import Records


def test_limits_are_compared_over_all_discounts():
    rows = [
        {"part": "discounts", "discount": discount, "limit": limit, "step": 1, "seed": seed}
        for discount, limit in ((0.0, 12.0), (0.5, 15.0), (0.9, 10.0))
        for seed in (0, 1)
    ]
    assert RATIO_OF_LIMITS(Records(rows, ("part", "discount"))).mean == 1.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"discount": 1.0}, r"--discount is 1\.0, it must lie between 0\.0 and 0\.999"),
        ({"discounts": (0.5, 1.0)}, r"--discounts is 1\.0, it must lie between 0\.0 and 0\.999"),
        ({"lengths": (100,)}, "it must have two numbers or more: a slope needs two"),
        ({"lengths": (100, 100)}, "--lengths is .* it must be increasing numbers from 2"),
        ({"chains": (0,)}, "at least 2 different numbers"),
        ({"objectives": ("ppo",)}, "--objectives is 'ppo', it must be one of grpo"),
        ({"draws": 0}, "--draws is 0, it must be at least 1"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["smoke"], **changes)


def test_a_small_run_reveals_what_the_study_says(smoke):
    settings, found = smoke(inverse_soft_rl)
    for kind in (TABULAR, SLOW):
        assert found.mean("slope of reward error", part="errors", kind=kind) == pytest.approx(-0.5, abs=0.1)
    assert found.mean("gap of equals", part="trained", kind=GRPO, world="graded") > 2
    assert found.mean("gap of halves", part="trained", kind=IPS_PLAIN, world="graded") == pytest.approx(0.69, abs=0.1)
    assert IPS not in found.distinct("kind")
    assert "uniform weights" in inverse_soft_rl.TABLE(found, settings)
    assert inverse_soft_rl.FIGURE(found, settings).rows
