import jax.numpy as jnp
import numpy as np
import pytest

from experiments.crossed.nine_answers import BANDIT, TREES, coverage, logits_for, prior


@pytest.mark.parametrize("environment", [BANDIT, TREES])
@pytest.mark.parametrize(("bias", "effective"), [(1.0, 4.0), (0.4, 2.717)])
def test_priors_have_their_pass_rates_and_biases(environment, bias, effective):
    found = coverage(environment, (1,), {"logits": jnp.asarray(logits_for(environment, prior(0.1, bias)))})
    # log-odds -2.197 + (-6, ..., 6).
    rates = 1 / (1 + np.exp(2.1972 - np.linspace(-6, 6, 8)))
    assert float(found["pass_at_1"]) == pytest.approx(rates.mean(), rel=1e-4)
    assert float(found["effective_outcomes"]) == pytest.approx(effective, rel=1e-3)
