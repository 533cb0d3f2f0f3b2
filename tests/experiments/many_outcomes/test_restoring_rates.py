import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import binom

from experiments.many_outcomes import restoring_rates
from experiments.many_outcomes.restoring_rates import ESTIMATES, Displaced
from ipsrl.dynamics.softmax import flows
from ipsrl.dynamics.softmax.finite_groups import count_weights, expected_weight, mean_field, without_one_sample


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


@pytest.mark.parametrize("rule", ["no baseline", "group mean", "ideal"])
def test_restoring_rate_is_the_slope_of_the_field_at_the_uniform_policy(rule):
    weights, rewards, step = count_weights(6, 0.7, 0.25), np.full(4, 1.5), 1e-5
    aside = np.array([1.0, -2.0, 0.5, 0.5])
    if rule == "ideal":
        fields = [flows.flow_velocity(sign * step * aside, rewards, alpha=0.7) for sign in (1, -1)]
        rate = restoring_rates.ideal_restoring_rate(4, 0.7, reward=1.5)
    else:
        fields = [mean_field(softmax(sign * step * aside), rewards, weights, rule) for sign in (1, -1)]
        effective = weights if rule == "no baseline" else without_one_sample(weights)
        rate = restoring_rates.restoring_rate(4, effective, reward=1.5)
    np.testing.assert_allclose((fields[0] - fields[1]) / (2 * step), -rate * aside, rtol=1e-7)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("a tie has at least 2", lambda: restoring_rates.restoring_rate(1, count_weights(8))),
        ("alpha is", lambda: restoring_rates.ideal_restoring_rate(4, -1.0)),
        ("reward is 0", lambda: restoring_rates.ideal_restoring_rate(4, 1.0, reward=0.0)),
    ],
)
def test_bad_input_is_refused(message, call):
    with pytest.raises(ValueError, match=message):
        call()


def test_slope_of_the_expected_weight():
    weights, p, step = count_weights(8, alpha=0.5, floor=0.2), np.array([0.05, 0.4, 0.9]), 1e-5
    difference = (expected_weight(p + step, weights) - expected_weight(p - step, weights)) / (2 * step)
    np.testing.assert_allclose(restoring_rates.expected_weight_slope(p, weights), difference, rtol=1e-8)
    assert (restoring_rates.expected_weight_slope(p, count_weights(1)) == 0).all()
