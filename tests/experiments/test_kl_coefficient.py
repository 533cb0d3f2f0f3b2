import numpy as np
import pytest

from experiments.kl_coefficient import CLAIMS, START, measures, optimum, share_of_divergence
from ipsrl.records.tidy import Records
from ipsrl.study import claims


def decided(rows, sentence):
    (found,) = (claim for claim in CLAIMS if claim.startswith("in the loss: ") and sentence in claim)
    rows = [{"kind": "trained", "place": "in the loss", "step": 1} | row for row in rows]
    return claims.decided({found: CLAIMS[found]}, Records(rows, ("kind", "place", "beta")))[found]


def test_the_start_has_no_divergence_and_the_optimum_goes_from_the_hack_to_the_start():
    found = measures(np.exp(START))
    assert (found["true"], found["hack"]) == (pytest.approx(0.3), pytest.approx(0.035))
    assert found["divergence"] == pytest.approx(0, abs=1e-6)
    assert optimum(0.01).values["hack"] == pytest.approx(1)
    assert optimum(100).values["true"] == pytest.approx(0.3, abs=0.01)


def test_every_coefficient_must_fail():
    def rows(**values):
        good = {"true": 0.95, "hack": 0.0, "divergence": 1.0}
        bad = {"true": 0.1, "hack": 0.9, "divergence": 2.0}
        cells = [(0.1, bad), (1.0, bad | values), (10.0, good | {"true": 0.3, "divergence": 0.01})]
        return [of | {"beta": beta, "seed": seed} for beta, of in cells for seed in range(10)]

    assert decided(rows(), "hack or stagnate") is True
    assert decided(rows(hack=0.2), "hack or stagnate") is False
    assert decided(rows(hack=0.2), "no coefficient ends") is True
    assert decided(rows(true=0.97), "no coefficient ends") is False


@pytest.mark.slow
def test_a_small_divergence_moves_only_standardised_rewards():
    moved = [
        share_of_divergence(text, 4).values["moved"] for text in ("grpo(kl=k1(0.001, place=reward))", "rloo(kl=0.001)")
    ]
    assert moved[0] > 0.1 > moved[1]
