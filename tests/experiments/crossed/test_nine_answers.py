import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.crossed.nine_answers import BANDIT, TREES, Settings, coverage, curves, logits_for, prior


@pytest.mark.parametrize("environment", [BANDIT, TREES])
@pytest.mark.parametrize(("bias", "effective"), [(1.0, 4.0), (0.4, 2.717)])
def test_priors_have_their_pass_rates_and_biases(environment, bias, effective):
    found = coverage(environment, (1,), {"logits": jnp.asarray(logits_for(environment, prior(0.1, bias)))})
    # log-odds -2.197 + (-6, ..., 6).
    rates = 1 / (1 + np.exp(2.1972 - np.linspace(-6, 6, 8)))
    assert float(found["pass_at_1"]) == pytest.approx(rates.mean(), rel=1e-4)
    assert float(found["effective_outcomes"]) == pytest.approx(effective, rel=1e-3)


def test_every_rate_trains_every_seed_from_every_start():
    even, worse = (logits_for(BANDIT, prior(pass_rate, 1.0, spread=0.0)) for pass_rate in (0.5, 0.1))
    settings = Settings(seeds=(3, 4), learning_rates=(1e-4, 0.5), steps=20, record_every=10)
    found = list(curves(BANDIT, "dr_grpo", [({"p": 0.5}, even), ({"p": 0.1}, worse)], (1,), settings))
    assert [curve.labels for curve in found] == [
        {"p": start, "learning_rate": rate} for start in (0.5, 0.1) for rate in (1e-4, 0.5)
    ]
    ends = []
    for curve in found:
        points = curve.compute()
        right = points.values["pass_at_1"]
        assert (list(points.steps), points.seeds, right.shape) == ([0, 10, 20], (3, 4), (2, 3))
        np.testing.assert_allclose(right[:, 0], curve.labels["p"], rtol=1e-5)
        ends.append(right[:, -1])
    assert (ends[1] > ends[0] + 0.1).all()
    assert (ends[3] > ends[2] + 0.1).all()
    alone = dataclasses.replace(settings, seeds=(3, 4), learning_rates=(0.5,))
    (same,) = curves(BANDIT, "dr_grpo", [({}, worse)], (1,), alone)
    np.testing.assert_allclose(same.compute().values["pass_at_1"][:, -1], ends[3], rtol=1e-5)
