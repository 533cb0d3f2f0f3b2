import numpy as np
import pytest
from scipy.stats import binom

from experiments.many_outcomes import restoring_rates


def test_closed_form_is_the_chance_that_an_outcome_occurs_twice():
    sizes = np.array([16, 64, 4096])
    rates = [restoring_rates.closed_form("counts", size, group_size=16) for size in sizes]
    np.testing.assert_allclose(rates, binom.sf(1, 15, 1 / sizes), rtol=1e-9)
    np.testing.assert_allclose([restoring_rates.closed_form("exact", size, group_size=16) for size in sizes], 15 / 16)


@pytest.mark.parametrize("estimate", restoring_rates.ESTIMATES)
def test_exact_rates_come_near_the_closed_form(estimate):
    closed_form = restoring_rates.closed_form(estimate, 16, group_size=16)
    # The displacement of a quarter costs a few per cent of the rate.
    assert restoring_rates.exact(estimate, 16, 16, 0.25) == pytest.approx(closed_form, rel=0.1)
    assert restoring_rates.exact(estimate, 16, 16, 1e-3) == pytest.approx(closed_form, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("estimate", restoring_rates.ESTIMATES)
def test_sampled_rates_are_those_of_the_exact_mean(estimate):
    rates = restoring_rates.sampled(estimate, 16, 16, 0.25, batches=8)
    exact, error = restoring_rates.exact(estimate, 16, 16, 0.25), rates.std(ddof=1) / np.sqrt(len(rates))
    assert rates.shape == (8,)
    assert abs(rates.mean() - exact) < 3 * error
    assert 0 < error < exact / 5


def test_an_odd_number_of_outcomes_cannot_be_displaced():
    with pytest.raises(ValueError, match="num_outcomes is 5, it must be even"):
        restoring_rates.exact("counts", 5, 16, 0.25)
