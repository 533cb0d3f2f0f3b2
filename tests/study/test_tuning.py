import numpy as np
import pytest

from ipsrl.records.tidy import NotRecorded, Records, TooFewSeeds
from ipsrl.study.tuning import best_for_others, of_best


def curves(*ends, arm="a"):
    """Rows of one curve for each learning rate, 1, 2, ..., with these values of the seeds at the end."""
    return [
        {"arm": arm, "learning_rate": rate, "seed": seed, "step": step, "score": step * end}
        for rate, of_seeds in enumerate(ends, 1)
        for seed, end in enumerate(of_seeds)
        for step in (0, 1)
    ]


def test_each_half_of_the_seeds_has_the_rate_that_is_best_for_the_other_half():
    rows = curves([0.9, 0.1, 0.9, 0.1], [0.2, 0.3, 0.2, 0.3]) + curves([0.7, 0.6], arm="b")
    found = best_for_others(Records(rows, ("arm", "learning_rate")), "score")
    assert found.labels == ("arm",)
    # The first rate is best for even seeds, so odd ones get it; the best for all seeds would have been 0.5.
    assert found.ends("score", arm="a").tolist() == [0.2, 0.1, 0.2, 0.1]
    assert found.ends("learning_rate", arm="a").tolist() == [2, 1, 2, 1]
    assert found.ends("score", arm="b").tolist() == [0.7, 0.6]


def test_other_curves_may_decide_the_choice():
    rows = curves([0.9, 0.9], [0.2, 0.3]) + curves([0.1, 0.2], [0.7, 0.8], arm="b")
    records = Records(rows, ("arm", "learning_rate"))
    found = best_for_others(records, "score", judged_at={"arm": "a"})
    assert [found.ends("learning_rate", arm=arm).tolist() for arm in "ab"] == [[1, 1], [1, 1]]
    assert found.ends("score", arm="b").tolist() == [0.1, 0.2]
    alone = Records(curves([0.1, 0.2], arm="b"), ("arm", "learning_rate"))
    with pytest.raises(NotRecorded):
        best_for_others(alone, "score", judged_at={"arm": "a"})


def test_a_curve_that_ends_in_no_number_is_not_chosen():
    rows = curves([0.1, 0.2], [0.9, np.nan], [np.nan, 0.9])
    found = best_for_others(Records(rows, ("arm", "learning_rate")), "score")
    # Each of the last two rates is best for one half, and has no number for the other.
    np.testing.assert_array_equal(found.ends("learning_rate"), [3, 2])
    assert np.isnan(found.ends("score")).all()


def test_a_view_of_the_best_curves_may_ask_for_settings():
    records = Records(curves([0.9, 0.1], [0.2, 0.3]), ("arm", "learning_rate"))
    assert of_best(lambda records: records.ends("score").tolist(), "score")(records) == [0.2, 0.1]
    assert of_best(lambda records, settings: (len(records), settings), "score")(records, "all") == (4, "all")


def test_a_choice_by_other_seeds_takes_two_and_a_curve():
    with pytest.raises(TooFewSeeds):
        best_for_others(Records(curves([0.5]), ("learning_rate",)), "score")
    with pytest.raises(NotRecorded, match="no record of score to choose learning_rate by"):
        best_for_others(Records([], ("learning_rate",)), "score")
