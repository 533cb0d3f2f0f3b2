import numpy as np
import pytest

from experiments.kl_coefficient.hacked_proxy import COMMON, RARE, STARTS, bound, measures, optimum, share_of_divergence


def test_the_start_has_no_divergence_and_the_optimum_goes_from_the_hack_to_the_start():
    found = measures(np.exp(STARTS[COMMON]), COMMON)
    assert (found["true"], found["hack"]) == (pytest.approx(0.3), pytest.approx(0.035))
    assert found["divergence"] == pytest.approx(0, abs=1e-6)
    assert optimum(0.01, COMMON).values["hack"] == pytest.approx(1)
    # It stagnates, is of use, and hacks.
    assert [optimum(beta, RARE).values["wasted"] for beta in (100, 0.2, 0.01)] == [1, 0, 1]
    assert optimum(100, COMMON).values["true"] == pytest.approx(0.3, abs=0.01)


def test_the_best_optimum_is_at_the_bound_and_the_starts_are_on_both_sides_of_what_is_claimed():
    for start in STARTS:
        best = max(float(optimum(beta, start).values["true"]) for beta in np.geomspace(0.01, 10, 400))
        assert best == pytest.approx(bound(start), abs=1e-4)
    assert bound(COMMON) < 0.9 < bound(RARE)


@pytest.mark.slow
def test_a_small_divergence_moves_only_standardised_rewards():
    moved = [
        share_of_divergence(text, 4).values["moved"] for text in ("grpo(kl=k1(0.001, place=reward))", "rloo(kl=0.001)")
    ]
    assert moved[0] > 0.1 > moved[1]
