"""Limits, and that a small run measures every part."""

import pytest

from experiments import inverse_soft_rl
from experiments.inverse_soft_rl import GRPO, IPS, IPS_PLAIN, RATIO_OF_LIMITS, SLOW, TABULAR
from ipsrl.records.tidy import Records


def test_limits_are_compared_over_all_discounts():
    rows = [
        {"part": "discounts", "discount": discount, "limit": limit, "step": 1, "seed": seed}
        for discount, limit in ((0.0, 12.0), (0.5, 15.0), (0.9, 10.0))
        for seed in (0, 1)
    ]
    assert RATIO_OF_LIMITS(Records(rows, ("part", "discount"))).mean == 1.5


def test_a_small_run_reveals_what_the_study_says(smoke):
    _, found = smoke(inverse_soft_rl)
    for kind in (TABULAR, SLOW):
        assert found.mean("slope of reward error", part="errors", kind=kind) == pytest.approx(-0.5, abs=0.1)
    assert found.mean("gap of equals", part="trained", kind=GRPO, world="graded") > 2
    assert found.mean("gap of halves", part="trained", kind=IPS_PLAIN, world="graded") == pytest.approx(0.69, abs=0.1)
    assert IPS not in found.distinct("kind")
