import pytest

from experiments import covariate_shift
from experiments.covariate_shift import ARMS, FIGURE, LEAST, METHODS, of, slope
from experiments.covariate_shift.shifted_inputs import CLASSES
from tests.experiments.recorded import made_up


def test_slopes_are_those_of_each_seed():
    ratios = (10.0, 100.0, 1000.0)
    arms = {("a", ratio, 100_000): {"error": (2 * ratio**0.9, 3 * ratio**1.1)} for ratio in ratios}
    records = made_up(("world", "ratio", "samples"), arms)
    assert slope({"world": "a"}, ratios).of_seeds(records).values == pytest.approx([0.9, 1.1])


def test_a_small_run_measures_every_arm(smoke):
    settings, records = smoke(covariate_shift)
    arms = sum(map(len, ARMS.values()))
    assert len(records) == 2 * 2 * (2 * arms * len(CLASSES) + 3 + len(METHODS))
    # In one class for all C least squares loses the rare inputs, disagreement does not.
    least, robust = (
        records.mean("error", **arm, ratio=1000.0, samples=100_000) for arm in (of("ladder", LEAST, 0.0), of("ladder"))
    )
    assert robust < 16 < 100 < least
    assert {row["method"] for row in FIGURE(records, settings).rows if "method" in row} == {*ARMS, *METHODS}
