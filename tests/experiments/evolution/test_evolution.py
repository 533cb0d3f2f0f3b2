"""Settings, and that a small run measures every arm."""

import dataclasses

import pytest

from experiments import evolution
from experiments.evolution import FLOW, FLOW_NOISES, PRESETS, R99
from experiments.evolution.evolved import TABLED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"population": 7}, "--population is 7, it must be even and positive"),
        ({"shared_population": 0}, "--shared_population is 0, it must be even and positive"),
        ({"arms": ("ppo",)}, "--arms is 'ppo', it must be one of grpo"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["smoke"], **changes)


def test_on_a_table_large_noise_keeps_what_grpo_loses(smoke):
    settings, found = smoke(evolution)
    assert len(found) == len(FLOW_NOISES) + 8 * 5 + 2 * 5
    flow = {noise: found.mean(R99, kind=FLOW, noise=noise) for noise in (0.0, 1.0, 4.0)}
    assert found.mean(R99, kind="grpo", world=TABLED) == pytest.approx(flow[0.0], abs=0.02)
    for noise in (1.0, 4.0):
        assert found.mean(R99, kind="es", noise=noise, world=TABLED) == pytest.approx(flow[noise], abs=0.05)
    assert evolution.TABLE(found, settings).count("es ") >= 6
    assert evolution.FIGURE(found, settings).rows
