import numpy as np
import pytest

from experiments.slower_drains.drains import case_of, measures
from ipsrl import objectives
from ipsrl.dynamics.cases import STARTS
from ipsrl.dynamics.expected_training import expected_training
from ipsrl.dynamics.expected_update import Steps
from ipsrl.dynamics.field import Field, train


def test_measures_of_a_course_of_three_records():
    probs = np.array([[[0.4, 0.4, 0.2], [0.9, 0.1, 0.0], [1.0, 0.0, 0.0]], [[0.25, 0.25, 0.5]] * 3])
    found = measures(probs, (1.0, 1.0, 0.0), every=5)
    effective = np.exp(-0.9 * np.log(0.9) - 0.1 * np.log(0.1))
    np.testing.assert_allclose(found["effective"][:, 0], [1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(found["reward"][:, 0], [1.0, 0.5])
    np.testing.assert_allclose(found["at_bar"][:, 0], [effective, np.nan], rtol=1e-6)
    # From 2 effective outcomes to 1.38: less than half of what is above one is left. The second run keeps all.
    assert found["half_time"][:, 0].tolist() == [5, 10]


@pytest.mark.slow
def test_the_end_is_that_of_training_without_a_path():
    field = Field(objectives.make("gppo"), (1.0, 1.0, 0.0), 3, steps=Steps(2, 0.5))
    path = expected_training(field.objective, (1.0, 1.0, 0.0), STARTS, 3, field.steps, 80)
    case = case_of(field, path)
    ends, exponents = train(field, STARTS, 0.5, 80)
    np.testing.assert_allclose(case.ends, ends, rtol=1e-9)
    np.testing.assert_allclose(case.exponents, exponents, atol=1e-9)
