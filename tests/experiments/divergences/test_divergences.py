from experiments import divergences
from experiments.divergences import (
    FORWARD,
    JENSEN_SHANNON,
    MINIMISER,
    PAIRS,
    PREFERENCES,
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


def test_a_small_run_measures_every_part(smoke):
    _, found = smoke(divergences)
    assert found.mean("error", part=PREFERENCES, reference=UNIFORM, divergence=FORWARD, beta=0.3) < 1e-4
    assert found.mean("distance", part=PAIRS, divergence=REVERSE, reference=UNIFORM) < 0.1
    assert found.mean("distance", part=PAIRS, divergence=FORWARD, reference=UNIFORM) > 0.1
    assert 0 < found.mean("loss left", part=PAIRS, divergence=FORWARD, reference=UNIFORM) < 0.1
    assert found.mean("behind reverse KL", part=MINIMISER, divergence=FORWARD, reference=UNIFORM) > 0.05
    assert JENSEN_SHANNON not in found.distinct("divergence")
