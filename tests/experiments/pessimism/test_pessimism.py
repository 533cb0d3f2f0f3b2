"""What the study decides from made-up records, and that a small run measures every arm."""

import dataclasses

import pytest

from experiments import pessimism
from experiments.pessimism import (
    BALLS,
    CLAIMS,
    COMBO,
    KL,
    MOPO,
    NETWORKS,
    NONE,
    PLACEBO,
    PRESETS,
    TABULAR,
    best,
    critics,
)
from ipsrl.records.tidy import Records
from ipsrl.study import claims

WORLDS = TABULAR, NETWORKS, PLACEBO
LABELS = ("world", "method", "weight", "radius")
NOTHING = {"valid": 0.5, "gap": -0.1, "visited": 0.0, "unvisited": 0.0}


def made(values, seeds=160):
    """(world, method, weight, radius) -> name -> value; of `valid`, the share of seeds in which it is 1."""
    rows = []
    for arm in ((world, *arm) for world in WORLDS for arm in critics(world)):
        measured = values(*arm)
        for seed in range(seeds):
            of_seed = {name: value + 0.001 * (-1) ** seed for name, value in measured.items()}
            of_seed |= {"valid": float(seed < measured["valid"] * seeds)}
            rows.append(dict(zip(LABELS, arm, strict=True)) | {"seed": seed, "step": 0} | of_seed)
    return Records(rows, LABELS)


def decided(values):
    return claims.decided(CLAIMS, made(values))


def as_claimed(world, method, weight, radius):
    if world == PLACEBO:
        return NOTHING | {"return": 0.7}
    found = NOTHING | {"return": 0.6, "valid": 0.9}
    if method == NONE:
        found |= {"return": 0.5, "gap": 0.5, "unvisited": 2.0}
    if method in BALLS[TABULAR]:
        found |= {"return": 0.7 + 0.1 * (method == KL), "valid": 1.0}
    if method == MOPO:
        found |= {"return": 0.9}
    return found | ({"return": 0.1} if radius == 2.0 else {})


def as_not_claimed(world, method, weight, radius):
    if world == PLACEBO:
        return NOTHING | {"return": 0.7 if method == NONE else 0.5}
    found = NOTHING | {"return": 0.9}
    lower = {"return": 0.5 + 0.01 * (radius == 2.0), "valid": 0.1}
    return found | (lower if method in (*BALLS[TABULAR], MOPO) else {})


def test_each_claim_may_hold():
    assert [sentence for sentence, held in decided(as_claimed).items() if not held] == []


def test_each_claim_may_fail():
    assert [sentence for sentence, held in decided(as_not_claimed).items() if held is not False] == []


def test_the_best_setting_is_that_of_the_highest_return():
    def values(world, method, weight, radius):
        return {"return": weight - (radius - 0.5) ** 2, "valid": 1.0}

    records = made(values, 2).where(world=TABULAR)
    assert best(KL, records) == {"method": KL, "weight": 0.3, "radius": 0.5}
    assert best(COMBO, records) == {"method": COMBO, "weight": 0.3, "radius": 0.0}


def test_arms_that_were_not_run_decide_nothing():
    assert set(claims.decided(CLAIMS, Records([], LABELS)).values()) == {None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 0}, "--samples is 0, it must be at least 1"),
        ({"error": -1.0}, "--error is -1.0, it must be finite and not negative"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
        ({"steps": 0}, "--steps is 0, it must be at least 1"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["smoke"], **changes)


def test_a_small_run_measures_every_arm(smoke):
    settings, records = smoke(pessimism)
    assert len(records) == 2 * sum(len(critics(world)) for world in WORLDS)
    assert pessimism.TABLE(records, settings).count("DROMO") == 24 + 12 + 4
    assert pessimism.FIGURE(records, settings).rows
    # More weight, lower values.
    gaps = [records.mean("gap", world=TABULAR, method=COMBO, weight=weight) for weight in (0.01, 0.03, 0.1, 0.3)]
    assert gaps == sorted(gaps, reverse=True)
