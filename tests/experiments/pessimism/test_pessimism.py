import itertools

import pytest

from experiments import pessimism
from experiments.pessimism import COMBO, KL, NETWORKS, PLACEBO, RADII, TABULAR, WEIGHTS, best, bounded, critics
from tests.experiments.recorded import made_up

WORLDS = TABULAR, NETWORKS, PLACEBO


def test_the_best_setting_is_that_of_the_highest_return():
    arms = {
        (TABULAR, KL, weight, radius): {"return": [weight - (radius - 0.5) ** 2] * 2, "valid": float(radius == 0.5)}
        for weight, radius in itertools.product(WEIGHTS, RADII)
    }
    records = made_up(("world", "method", "weight", "radius"), arms)
    assert best(KL)(records).mean == pytest.approx(0.3)
    assert best(KL, bounded)(records).mean == 1.0


def test_a_small_run_measures_every_arm(smoke):
    settings, records = smoke(pessimism)
    assert len(records) == 2 * sum(len(list(critics(world))) for world in WORLDS)
    assert pessimism.TABLE(records, settings).count("DROMO") == (24 + 2) + (12 + 1) + (4 + 1)
    # More weight, lower values.
    gaps = [records.mean("gap", world=TABULAR, method=COMBO, weight=weight) for weight in (0.01, 0.03, 0.1, 0.3)]
    assert gaps == sorted(gaps, reverse=True)
