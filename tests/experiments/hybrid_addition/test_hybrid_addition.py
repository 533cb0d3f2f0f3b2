import pytest

from experiments import hybrid_addition as study


def test_a_small_run_measures_both_modes(smoke):
    _, found = smoke(study)
    assert found.distinct("step") == [0, 1]
    levels = [found.curve(f"thinking_{level}")[1] for level in (1, 2, 3, 4)]
    assert sum(levels) / 4 == pytest.approx(found.curve("thinking")[1])
