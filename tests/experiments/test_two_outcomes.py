import dataclasses

import numpy as np
import pytest

from experiments import two_outcomes
from experiments.two_outcomes import PRESETS
from ipsrl.records.tidy import Records, TooFewSeeds
from ipsrl.study import claims
from tests.experiments.recorded import recorded

pytestmark = pytest.mark.core


def records_of(deviation):
    """Of one objective; `[S, U]`."""
    rows = [
        {"objective": "reinforce", "seed": seed, "step": step, "deviation": value}
        for seed, values in enumerate(deviation)
        for step, value in enumerate(values)
    ]
    return Records(rows, ("objective",))


def test_the_closed_form_may_be_three_standard_errors_off():
    # The standard error of -1 and 1 is 1, and the start does not count.
    spread = np.array([[-1.0], [1.0]])
    inside, outside = spread + np.array([5.0, 2.9, -2.9]), spread + np.array([0.0, 3.1, 0.0])
    assert two_outcomes.share_outside(records_of(inside)) == 0.0
    assert two_outcomes.share_outside(records_of(outside)) == 0.5
    both = Records([row | {"objective": "other"} for row in records_of(inside).rows], ("objective",))
    assert two_outcomes.share_outside(dataclasses.replace(both, rows=[*both.rows, *records_of(outside).rows])) == 0.5


def test_one_seed_decides_nothing():
    alone = records_of([[0.0, 9.0]])
    with pytest.raises(TooFewSeeds):
        two_outcomes.share_outside(alone)
    assert claims.decided(two_outcomes.CLAIMS, alone) == dict.fromkeys(two_outcomes.CLAIMS)
    assert claims.measured(two_outcomes.NUMBERS, alone) == {}


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
