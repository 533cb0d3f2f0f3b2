import pytest

from experiments.kl_coefficient import HACK_OR_STAGNATE
from ipsrl.records.tidy import Records


def test_runs_hack_or_stagnate():
    ends = [(0.9, 2.0)] * 4 + [(0.01, 0.05)] * 3 + [(0.2, 1.0)] * 3
    rows = [
        {"hack": hack, "divergence": divergence, "seed": seed, "step": 1}
        for seed, (hack, divergence) in enumerate(ends)
    ]
    assert HACK_OR_STAGNATE(Records(rows, ())).mean == pytest.approx(0.7)
