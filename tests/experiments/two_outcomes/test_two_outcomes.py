import dataclasses

import numpy as np
import pytest

from experiments import two_outcomes
from experiments.two_outcomes import PRESETS
from ipsrl.study import claims
from tests.experiments.recorded import recorded

pytestmark = pytest.mark.core


def test_theory_stands_beside_what_was_measured(tmp_path):
    settings = dataclasses.replace(PRESETS["smoke"], seeds=(0, 1), steps=20, record_every=5, group_size=4)
    records = recorded(two_outcomes, settings, tmp_path / "out")
    assert records.distinct("objective") == list(settings.objectives)
    for name in settings.objectives:
        steps, times = records.curve("time", objective=name)
        np.testing.assert_allclose(times, [0.02 * steps] * 2)
        log_ratio, theory, deviation = (
            records.curve(value, objective=name)[1] for value in ("log_ratio", "closed_form", "deviation")
        )
        assert (log_ratio[:, 0] == -1).all()
        np.testing.assert_array_equal(log_ratio - theory, deviation)
        assert (theory[0] == theory[1]).all()
    # u + sinh u = (r_1 - r_2) t + c.
    theory = records.curve("closed_form", objective="reinforce")[1][0]
    np.testing.assert_allclose(theory + np.sinh(theory), times[0] - 1 - np.sinh(1), rtol=1e-8)
    figure = two_outcomes.FIGURE(records, settings).figure
    above, below = figure.axes
    np.testing.assert_allclose(above.lines[0].get_xydata(), np.stack([times[0], theory], axis=1))
    assert len(below.lines) == 3


@pytest.mark.slow
def test_sampled_log_ratios_follow_the_closed_forms(tmp_path):
    records = recorded(two_outcomes, PRESETS["demo"], tmp_path / "out")
    assert claims.decided(two_outcomes.CLAIMS, records) == dict.fromkeys(two_outcomes.CLAIMS, True)
