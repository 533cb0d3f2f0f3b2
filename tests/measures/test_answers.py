import numpy as np
import pytest

from ipsrl.measures import answers


def test_denominators_are_queries_not_parsed_answers():
    # 5 answers: one unparsed, one outside the space of 4, hypothesis 0 twice, hypothesis 2 once; 0, 1 are admissible.
    outcome_id = np.array([-1, 7, 0, 0, 2])
    valid = np.array([False, True, True, True, False])
    admissible = np.array([True, True, False, False])
    assert answers.parse_rate(outcome_id) == 4 / 5
    assert answers.validity(valid) == 3 / 5
    assert answers.uniqueness(outcome_id) == 3 / 5
    assert answers.recovery(outcome_id, admissible) == 1 / 2


def test_batch_uses_each_prompts_own_number_of_answers():
    admissible = np.array([[True, False, False, False], [True, True, True, True]])
    outcome_id = np.array([[0, 1, 2, 3], [3, 2, 1, 3]])
    valid = np.array([[True, False, False, False], [True, True, True, True]])
    measured = answers.measure_answers(outcome_id, valid, admissible, "independent")
    np.testing.assert_array_equal(measured.admissible_size, [1, 4])
    np.testing.assert_array_equal(measured.recovery, [1.0, 0.75])
    np.testing.assert_array_equal(measured.validity, [1.0, 1.0])
    np.testing.assert_array_equal(measured.uniqueness, [1.0, 0.75])
    np.testing.assert_allclose(measured.ceiling, [1.0, 1 - 0.75**4])
    assert measured.recovery_between(1, 3) == 1.0
    assert measured.recovery_between(4, 4) == 0.75
    assert measured.recovery_between(5, 9) is None
    assert measured.means()["recovery"] == 0.875


def test_the_ceiling_of_large_spaces():
    assert answers.independent_ceiling(10_000, 10_000) == pytest.approx(1 - np.exp(-1), abs=1e-4)


def test_bad_input_is_refused():
    one = np.ones((1, 3), bool)
    with pytest.raises(ValueError, match="needs 3 answers"):
        answers.measure_answers(np.zeros((1, 2), int), one[:, :2], one, "independent")
    with pytest.raises(ValueError, match="admissible"):
        answers.measure_answers(np.zeros((1, 3), int), one, ~one, "independent")
