import dataclasses

import numpy as np
import pytest

from experiments import molecules_enumerated
from experiments.molecules_enumerated import ADAM, COUNTS, EXACT, LARGE, PLACEBO, PRESETS, SGD
from ipsrl.records.tidy import Records
from ipsrl.study import claims
from tests.experiments.recorded import recorded


def test_there_is_an_arm_for_each_training():
    pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')
    curves = list(molecules_enumerated.curves(PRESETS["smoke"]))
    assert [tuple(curve.labels.values()) for curve in curves] == [
        (COUNTS, SGD), (EXACT, SGD), (COUNTS, LARGE), (COUNTS, ADAM), (EXACT, ADAM),
    ]  # fmt: skip


def verdicts(values):
    """The truth values of the claims about SGD by their beginnings; `values` are (variation, exponent) of arms."""
    rows = [
        {"objective": name, "training": SGD, "seed": seed, "step": step, "total_variation": variation + shift,
         "routes_exponent": exponent + shift}
        for name, (variation, exponent) in values.items()
        for seed, shift in enumerate((-0.001, 0.001))
        for step in (75, 100)
    ]  # fmt: skip
    return claims.decided(molecules_enumerated.CLAIMS, Records(rows, ("objective", "training")))


@pytest.mark.parametrize(
    ("exact", "placebo", "expected"),
    [
        ((0.01, 0.0), (0.104, 1.0), (True, True)),
        ((0.01, 0.2), (0.104, 0.5), (False, False)),
        ((0.09, 0.0), (0.104, 1.0), (False, False)),
        ((0.05, 0.0), (0.104, 1.0), (None, True)),
    ],
)
def test_claims_ask_for_both_variation_and_exponent(exact, placebo, expected):
    decided = verdicts({EXACT: exact, PLACEBO: placebo})
    found = [
        next(held for sentence, held in decided.items() if sentence.startswith(f"SGD: {beginning}"))
        for beginning in ("IPS-GRPO with a uniform backward policy", "without a backward policy")
    ]
    assert tuple(found) == expected


@pytest.mark.slow
def test_routes_decide_only_without_a_backward_policy(tmp_path):
    pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')
    settings = dataclasses.replace(PRESETS["demo"], seeds=(0, 1, 2, 3), objectives=(EXACT, PLACEBO), steps=1200)
    records = recorded(molecules_enumerated, settings, tmp_path / "out")
    for training in (SGD, ADAM):
        exact, placebo = ({"objective": text, "training": training} for text in (EXACT, PLACEBO))
        assert records.ends("total_variation", **exact).max() < 0.02
        np.testing.assert_allclose(records.ends("routes_exponent", **exact), 0, atol=0.03)
        np.testing.assert_allclose(records.ends("routes_exponent", **placebo), 1, atol=0.03)
        np.testing.assert_allclose(records.ends("total_variation", **placebo), 0.104, atol=0.01)
