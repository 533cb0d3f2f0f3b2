import dataclasses

import numpy as np
import pytest

pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')

from experiments import molecules_enumerated
from experiments.molecules_enumerated import ADAM, EXACT, PLACEBO, PRESETS, SGD
from tests.experiments.recorded import recorded


@pytest.mark.slow
def test_routes_decide_only_without_a_backward_policy(tmp_path):
    settings = dataclasses.replace(PRESETS["demo"], seeds=(0, 1), objectives=(EXACT, PLACEBO), steps=1200)
    records = recorded(molecules_enumerated, settings, tmp_path / "out")
    for training in (SGD, ADAM):
        exact, placebo = ({"objective": text, "training": training} for text in (EXACT, PLACEBO))
        assert records.ends("total_variation", **exact).max() < 0.02
        np.testing.assert_allclose(records.ends("routes_exponent", **exact), 0, atol=0.03)
        np.testing.assert_allclose(records.ends("routes_exponent", **placebo), 1, atol=0.03)
        np.testing.assert_allclose(records.ends("total_variation", **placebo), 0.104, atol=0.01)
