import pytest

from experiments import evolution
from experiments.evolution import FLOW, FLOW_NOISES, R99
from experiments.evolution.evolved import TABLED


def test_on_a_table_large_noise_keeps_what_grpo_loses(smoke):
    _, found = smoke(evolution)
    assert len(found) == len(FLOW_NOISES) + 8 * 5 + 2 * 5
    flow = {noise: found.mean(R99, kind=FLOW, noise=noise) for noise in (0.0, 1.0, 4.0)}
    assert found.mean(R99, kind="grpo", world=TABLED) == pytest.approx(flow[0.0], abs=0.02)
    for noise in (1.0, 4.0):
        assert found.mean(R99, kind="es", noise=noise, world=TABLED) == pytest.approx(flow[noise], abs=0.05)
