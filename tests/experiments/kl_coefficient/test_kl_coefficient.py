import pytest

from experiments.kl_coefficient import CLAIMS, COMMON, STARTS
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("kind", "start", "place", "beta")


def decided(rows, sentence, start=COMMON):
    (found,) = (claim for claim in CLAIMS if start in claim and "in the loss: " in claim and sentence in claim)
    rows = [{"kind": "trained", "start": start, "place": "in the loss", "step": 1} | row for row in rows]
    return claims.decided({found: CLAIMS[found]}, Records(rows, LABELS))[found]


@pytest.mark.parametrize("start", STARTS)
def test_every_coefficient_must_fail(start):
    def rows(spread=0.0, **values):
        good = {"true": 0.95, "hack": 0.0, "divergence": 1.0}
        bad = {"true": 0.1, "hack": 0.9, "divergence": 2.0}
        cells = [(0.1, bad), (1.0, bad | values), (10.0, good | {"true": 0.3, "divergence": 0.01})]
        return [
            of | {"beta": beta, "seed": seed, "true": of["true"] + spread * (seed % 2)}
            for beta, of in cells
            for seed in range(10)
        ]

    assert decided(rows(), "hack or stagnate", start) is True
    assert decided(rows(hack=0.2), "hack or stagnate", start) is False
    assert decided(rows()[:12], "hack or stagnate", start) is None
    assert decided(rows(hack=0.2), "no coefficient ends", start) is True
    assert decided(rows(true=0.97), "no coefficient ends", start) is False
    assert decided(rows(true=0.85, spread=0.1), "no coefficient ends", start) is None
