import numpy as np

from experiments.covariate_shift.shifted_inputs import COMMON, EPS, law
from experiments.covariate_shift.shifted_networks import INPUTS, METHODS, STEP, UNITS, chosen, predict, target


def test_four_units_are_within_eps_of_the_target_at_any_height():
    for ratio in (10.0, 1000.0):
        height = STEP * np.sqrt(ratio) * EPS
        edge = [(INPUTS[COMMON - 1] + INPUTS[COMMON]) / 2, (INPUTS[COMMON + 3] + INPUTS[COMMON + 4]) / 2]
        weights = np.array([200.0, 200.0, 1.0, 1.0])
        offsets = -weights * np.array([*edge, 0.0, 0.0])
        outputs = np.array([-height / 2, height, 0.0, 0.0])
        values = predict({"weights": weights, "offsets": offsets, "outputs": outputs, "constant": height / 2})
        error = np.abs(np.asarray(values) - target(ratio))
        assert error.max() < EPS * (1 + 1e-4)
        assert error[COMMON:].max() < 1e-5


def test_units_can_make_the_wave():
    assert (np.diff(np.sign(target(10.0)[:COMMON])) != 0).sum() == UNITS


def test_what_is_chosen_from_the_networks():
    ratio = 1000.0
    wrong = target(ratio) * (np.arange(len(INPUTS)) < COMMON)
    right = np.where(np.arange(len(INPUTS)) < COMMON, 0.0, target(ratio))
    values = np.stack([[wrong, 2 * wrong], [right, wrong], [right, right]])
    counts = law(ratio)[:, None]
    found = chosen(values, counts, counts * target(ratio)[:, None])
    expected = dict(zip(METHODS, (wrong, wrong, right, right, right), strict=True))
    for method, function in expected.items():
        np.testing.assert_array_equal(found[method], function)
