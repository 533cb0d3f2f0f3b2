from experiments import overoptimisation
from experiments.overoptimisation import AVERAGE, DPO
from experiments.overoptimisation.preferred_arms import PARTIAL, SHARED


def test_a_small_run_shows_the_fall_on_shared_features(smoke):
    _, found = smoke(overoptimisation)
    dpo = {"world": SHARED, "coverage": PARTIAL, "kind": DPO}
    assert found.final("fall", **dpo).low > 0.05
    assert found.final("rise", **dpo).low > 0.2
    assert found.mean("value", **dpo | {"kind": AVERAGE}) > found.mean("value", **dpo)
