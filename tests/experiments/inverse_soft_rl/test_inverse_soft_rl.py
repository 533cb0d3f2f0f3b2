import pytest

from experiments import inverse_soft_rl
from experiments.inverse_soft_rl import GRPO, IPS, IPS_PLAIN, RATIO_OF_LIMITS, SLOW, TABULAR
from tests.experiments.recorded import made_up


def test_limits_are_compared_over_all_discounts():
    arms = {("discounts", at): {"limit": [limit] * 2} for at, limit in {0.0: 12.0, 0.5: 15.0, 0.9: 10.0}.items()}
    assert RATIO_OF_LIMITS(made_up(("part", "discount"), arms)).mean == 1.5


def test_a_small_run_reveals_what_the_study_says(smoke):
    _, found = smoke(inverse_soft_rl)
    for kind in (TABULAR, SLOW):
        assert found.mean("slope of reward error", part="errors", kind=kind) == pytest.approx(-0.5, abs=0.1)
    assert found.mean("gap of equals", part="trained", kind=GRPO, world="graded") > 2
    assert found.mean("gap of halves", part="trained", kind=IPS_PLAIN, world="graded") == pytest.approx(0.69, abs=0.1)
    assert IPS not in found.distinct("kind")
