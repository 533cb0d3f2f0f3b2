import numpy as np
import pytest

from experiments.molecules_enumerated.power_law import exponents

QUANTITIES = np.array([[1.0, 2.0, 6.0, 1.0], [0.2, 0.4, 0.3, 0.9]])


def test_powers_come_back_whatever_the_weights():
    powers = np.array([[[1.0, 0.0], [0.5, 2.0]], [[0.0, 1.0], [-1.0, 0.3]]])
    probs = np.exp(powers @ np.log(QUANTITIES))
    probs /= probs.sum(axis=-1, keepdims=True)
    for weights in (np.ones(4), np.array([0.1, 2.0, 3.0, 0.4])):
        np.testing.assert_allclose(exponents(probs, QUANTITIES, weights), powers, atol=1e-9)


def test_weights_say_which_outcomes_count():
    probs = np.array([0.1, 0.2, 0.6, 0.1]) * [1, 1, 1, 1e-9]
    assert abs(exponents(probs, QUANTITIES[:1], np.array([1.0, 1.0, 1.0, 0.0])) - 1) < 1e-9
    assert exponents(probs, QUANTITIES[:1], np.ones(4)) > 2


def test_degenerate_quantities_and_lost_outcomes_stay_finite():
    alike = exponents(np.full(4, 0.25), np.ones((1, 4)), np.ones(4))
    np.testing.assert_allclose(alike, [0.0], atol=1e-12)
    assert np.isfinite(exponents(np.array([1.0, 0.0, 0.0, 0.0]), QUANTITIES, np.ones(4))).all()


@pytest.mark.parametrize(
    ("quantities", "weights", "message"),
    [
        (QUANTITIES[:, :3], np.ones(4), "must have the shapes"),
        (QUANTITIES, np.ones(3), "must have the shapes"),
        (QUANTITIES - 1, np.ones(4), "all quantities must be positive"),
        (QUANTITIES, -np.ones(4), "no weight may be negative"),
    ],
)
def test_what_has_no_logarithm_is_refused(quantities, weights, message):
    with pytest.raises(ValueError, match=message):
        exponents(np.full(4, 0.25), quantities, weights)
