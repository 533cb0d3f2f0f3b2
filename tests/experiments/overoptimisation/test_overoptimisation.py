"""What the study decides from made-up records, and that a small run measures every part."""

import dataclasses

import numpy as np
import pytest

from experiments import overoptimisation
from experiments.overoptimisation import (
    AVERAGE,
    CLAIMS,
    COUNTDOWN,
    CUMULATIVE,
    DPO,
    GAME,
    GAMES,
    NUMBERS,
    OBJECTIVES,
    ON_COUNTDOWN,
    ON_FULL,
    PRESETS,
    SFT,
    SMALL,
    TINY,
)  # fmt: skip
from experiments.overoptimisation.preferred_arms import FULL, PARTIAL, SHARED, TABLE
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("world", "coverage", "kind")
KEEPS = {"value": 1.0, "fall": 0.0, "rise": 0.0, "chosen": 0.5, "held out": 0.0}
FALLS = {"value": 0.3, "fall": 0.7, "rise": 1.0, "chosen": -9.0, "held out": 0.0}
CELLS = [
    *((world, PARTIAL, kind) for world in (TABLE, SHARED) for kind in OBJECTIVES),
    *((world, FULL, kind) for world in (TABLE, SHARED) for kind in ON_FULL),
    *((GAME, PARTIAL, kind) for kind in GAMES),
    *((COUNTDOWN, PARTIAL, kind) for kind in ON_COUNTDOWN),
]


def decided(changes=(), spread=0.001):
    """Of kinds of which DPO, and RPO with a tiny eta, fall under partial coverage; with changes by cell or by kind."""
    found = []
    for cell in CELLS:
        falls = cell[1] == PARTIAL and cell[2] in (DPO, TINY)
        values = (FALLS if falls else KEEPS) | dict(changes).get(cell[2], {}) | dict(changes).get(cell, {})
        # Each cell has luck of its own, which leaves its mean.
        luck = np.random.default_rng(CELLS.index(cell)).normal(size=8)
        for seed, chance in enumerate(spread * (luck - luck.mean())):
            measured = {name: value + chance for name, value in values.items()}
            found.append(dict(zip(LABELS, cell, strict=True)) | measured | {"seed": seed, "step": 1})
    return claims.decided(CLAIMS, Records(found, LABELS))


def test_each_claim_may_hold():
    assert [sentence for sentence, held in decided().items() if not held] == []


def test_each_claim_may_fail():
    rpo = {"value": 0.4, "fall": 0.6, "chosen": -2.0, "held out": -0.3}
    changes = {CUMULATIVE: rpo, SMALL: rpo, AVERAGE: rpo}
    changes |= {DPO: KEEPS | {"held out": -0.3}, SFT: {"held out": -0.3, "value": 2.0}, TINY: {"value": 2.0}}
    changes |= {(GAME, PARTIAL, kind): {"value": 1.0} for kind in GAMES}
    changes |= {(world, FULL, DPO): {"fall": 0.5} for world in (TABLE, SHARED)}
    assert [sentence for sentence, held in decided(changes).items() if held is not False] == []


def test_seeds_that_disagree_decide_nothing():
    assert set(decided(spread=100.0).values()) == {None}


def test_the_falls_count_only_where_the_implicit_reward_rises():
    sentence = next(text for text in CLAIMS if text.startswith("DPO overoptimises") and "shared" in text)
    assert decided()[sentence]
    assert decided({(SHARED, PARTIAL, DPO): {"rise": -0.5}})[sentence] is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 401}, "--steps is 401, it must be a multiple of 50"),
        ({"task_steps": 2}, "--task_steps is 2, it must be a multiple of 4"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
        ({"objectives": ("ppo",)}, "--objectives is 'ppo', it must be one of dpo"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["smoke"], **changes)


def test_a_small_run_shows_the_fall_on_shared_features(smoke):
    settings, found = smoke(overoptimisation)
    dpo = {"world": SHARED, "coverage": PARTIAL, "kind": DPO}
    assert found.low("fall", **dpo) > 0.05
    assert found.low("rise", **dpo) > 0.2
    assert found.mean("value", **dpo | {"kind": AVERAGE}) > found.mean("value", **dpo)
    measured = claims.measured(NUMBERS, found)
    assert {f"value, {kind} ({COUNTDOWN})" for kind in (DPO, AVERAGE)} <= set(measured)
    assert "countdown" in overoptimisation.TABLE(found, settings)
    assert overoptimisation.FIGURE(found, settings).rows
