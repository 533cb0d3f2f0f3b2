import numpy as np
import pytest
from scipy.stats import binom

from experiments.many_outcomes.restoring_rates import ESTIMATES, Displaced


def test_closed_form_is_the_chance_that_an_outcome_occurs_twice():
    sizes = np.array([16, 64, 4096])
    rates = {each: [Displaced(each, size, 16, 0.25).closed_form() for size in sizes] for each in ESTIMATES}
    np.testing.assert_allclose(rates["counts"], binom.sf(1, 15, 1 / sizes), rtol=1e-9)
    np.testing.assert_allclose(rates["exact"], 15 / 16)


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_exact_rates_come_near_the_closed_form(estimate):
    # The displacement of a quarter costs a few per cent of the rate.
    for displacement, error in ((0.25, 0.1), (1e-3, 1e-5)):
        displaced = Displaced(estimate, 16, 16, displacement)
        assert displaced.exact() == pytest.approx(displaced.closed_form(), rel=error)


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_sampled_rates_are_those_of_the_exact_mean(estimate):
    displaced = Displaced(estimate, 16, 16, 0.25)
    rates, exact = displaced.sampled(8), displaced.exact()
    error = rates.std(ddof=1) / np.sqrt(len(rates))
    assert rates.shape == (8,)
    assert abs(rates.mean() - exact) < 3 * error
    assert 0 < error < exact / 5
