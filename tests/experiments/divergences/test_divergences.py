"""What the study asks of all policies at once, and that a small run measures every part."""

import dataclasses

import pytest

from experiments import divergences
from experiments.divergences import (
    FORWARD,
    JENSEN_SHANNON,
    MINIMISER,
    PAIRS,
    PREFERENCES,
    PRESETS,
    REVERSE,
    UNIFORM,
    never_positive,
)
from ipsrl.records.tidy import Records


def test_a_bound_must_hold_for_every_policy():
    below, above = {"seed": 0, "step": 0, "over": -0.1}, {"seed": 1, "step": 0, "over": 0.01}
    claim = never_positive("over")
    assert claim(Records([below, below | {"over": 1e-9}], ())) is True
    assert claim(Records([below, above, below], ())) is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"betas": (0.0, 0.3)}, r"--betas is .* it must be increasing numbers from 0\.01"),
        ({"trained_betas": (0.3, 0.3)}, "--trained_betas is .* it must be increasing numbers"),
        ({"pairs": 1}, "--pairs is 1, it must be at least 2"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
        ({"divergences": ("kl",)}, "--divergences is 'kl', it must be one of reverse_kl"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["smoke"], **changes)


def test_a_small_run_measures_every_part(smoke):
    settings, found = smoke(divergences)
    assert found.mean("error", part=PREFERENCES, reference=UNIFORM, divergence=FORWARD, beta=0.3) < 1e-4
    assert found.mean("distance", part=PAIRS, divergence=REVERSE, reference=UNIFORM) < 0.1
    assert found.mean("distance", part=PAIRS, divergence=FORWARD, reference=UNIFORM) > 0.1
    assert 0 < found.mean("loss left", part=PAIRS, divergence=FORWARD, reference=UNIFORM) < 0.1
    assert found.mean("behind reverse KL", part=MINIMISER, divergence=FORWARD, reference=UNIFORM) > 0.05
    assert JENSEN_SHANNON not in found.distinct("divergence")
    assert "exact preferences" in divergences.TABLE(found, settings)
    assert divergences.FIGURE(found, settings).rows
