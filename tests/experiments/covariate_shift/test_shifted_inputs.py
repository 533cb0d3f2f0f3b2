import numpy as np
import pytest

from experiments.covariate_shift.shifted_inputs import (
    CHAIN_EPS,
    CLASSES,
    COMMON,
    DISCOUNT,
    EPS,
    LENGTH,
    MOST,
    RARE,
    RARE_PLACES,
    Regression,
    backup,
    chain_class,
    fitted_q,
    law,
    optimal_values,
    regressed,
    value_of_greedy,
)

ANY = np.random.default_rng(0)


def misspecification(values, target):
    """How close the class comes to the target everywhere."""
    return np.abs(values - target).max(axis=1).min()


def population(kind, arm, ratio):
    """The error of each arm without noise, as the whole distribution were the data."""
    values, probs = CLASSES[kind](ratio, np.random.default_rng(1)), law(ratio)[:, None]
    taken = arm(values, probs, 0 * probs, ANY)[0]
    return np.mean(values[taken, COMMON:] ** 2) / EPS**2


def test_rare_inputs_have_one_part_in_c():
    np.testing.assert_allclose(law(100.0).sum(), 1.0)
    np.testing.assert_allclose(law(100.0)[COMMON:], 0.01 / RARE)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("ratio", [1.0, 30.0, MOST])
def test_every_class_is_eps_from_the_target(kind, ratio):
    values = CLASSES[kind](ratio, np.random.default_rng(2))
    # The pair's second function is nearer where the shift is small.
    expected = min(EPS, 0.8 * EPS) if (kind, ratio) == ("pair", 1.0) else EPS
    expected = 0.9 * EPS if (kind, ratio) == ("opposite", 1.0) else expected
    assert misspecification(values, np.zeros(COMMON + RARE)) == pytest.approx(expected)


@pytest.mark.parametrize("ratio", [10.0, 100.0, 1000.0])
def test_least_squares_on_the_population_is_linear_in_c(ratio):
    assert population("pair", Regression(0.0), ratio) == pytest.approx(0.64 * ratio)
    assert population("opposite", Regression(0.0), ratio) == pytest.approx(0.16 * ratio)
    # The ladder's steps are 19 % apart in squared error.
    assert population("ladder", Regression(0.0), ratio) == pytest.approx((ratio - 1) / np.log(MOST), rel=0.1)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("multiple", [2.01, 3.0, 6.0])
def test_disagreement_on_the_population_is_within_its_bound(kind, multiple):
    for ratio in (1.0, 10.0, 1000.0):
        assert population(kind, Regression(multiple), ratio) < (multiple + 1) ** 2


def test_a_threshold_below_twice_eps_may_take_the_wrong_one():
    assert population("opposite", Regression(1.8), 1000.0) == pytest.approx(160.0)
    assert population("opposite", Regression(1.95), 1000.0) == pytest.approx(1.0)


def test_all_arms_see_the_same_data_and_many_samples_are_the_population():
    points = regressed("ladder", Regression(0.0), [10.0, 100.0], [100, 10**8], [3, 4])
    assert points.values["ratio"].tolist() == [10.0, 10.0, 100.0, 100.0]
    assert points.values["samples"].tolist() == [100, 10**8] * 2
    np.testing.assert_allclose(points.values["error"][:, 1], population("ladder", Regression(0.0), 10.0))
    zero = regressed("ladder", Regression(1e-9), [10.0, 100.0], [100, 10**8], [3, 4])
    np.testing.assert_array_equal(zero.values["error"], points.values["error"])


def test_the_chain():
    best = optimal_values()[-1]
    np.testing.assert_allclose(best[LENGTH:], DISCOUNT ** np.arange(LENGTH)[::-1])
    np.testing.assert_allclose(backup(best), best)
    assert value_of_greedy(best) == pytest.approx(best[LENGTH])
    late = best.copy()
    late[-1] = 0.0
    assert value_of_greedy(late) == pytest.approx(DISCOUNT ** (LENGTH - 1) * 0.6)


def test_backups_of_the_best_functions_are_within_the_class_that_the_chain_assumes():
    values = chain_class()
    by_steps = values.reshape(LENGTH + 1, -1, 2 * LENGTH)
    np.testing.assert_allclose(np.abs(by_steps[:, 0] - optimal_values()), CHAIN_EPS)
    for best in by_steps[:-1, 0]:
        assert misspecification(values, backup(best)) <= (1 + DISCOUNT) * CHAIN_EPS + 1e-12


def test_fitted_q_by_least_squares_leaves_where_disagreement_goes_on():
    least, robust = (fitted_q(arm, [10.0, 1000.0], 100_000, [0, 1]).values for arm in (Regression(0.0), Regression()))
    assert least["regret"][:, 0].max() == 0.0 == robust["regret"].max()
    assert least["regret"][:, 1].min() > 0.1
    # At eps' = (1 + gamma) eps the bound of one regression is 16 eps'^2.
    assert robust["error"].max() < 16 * (1 + DISCOUNT) ** 2 < least["error"][:, 1].min()
    assert RARE_PLACES < LENGTH
