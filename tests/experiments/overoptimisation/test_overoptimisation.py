"""Settings out of range, and that a small run measures every part."""

import dataclasses

import pytest

from experiments import overoptimisation
from experiments.overoptimisation import AVERAGE, DPO, PRESETS
from experiments.overoptimisation.preferred_arms import PARTIAL, SHARED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 401}, "--steps is 401, it must be a positive multiple of 50"),
        ({"task_steps": 2}, "--task_steps is 2, it must be a positive multiple of 4"),
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
    assert found.final("fall", **dpo).low > 0.05
    assert found.final("rise", **dpo).low > 0.2
    assert found.mean("value", **dpo | {"kind": AVERAGE}) > found.mean("value", **dpo)
    table = overoptimisation.TABLE(found, settings)
    assert DPO in table.partition("countdown")[2]
    assert AVERAGE in table.partition("countdown")[2]
    assert overoptimisation.FIGURE(found, settings).rows
