import numpy as np
import pytest

from ipsrl.records.tidy import NotRecorded, Records, TooFewSeeds
from ipsrl.study import above, all_of, among, at_each, below, difference, equal_within, final, share, share_above
from ipsrl.study.claims import every, near, tuned


def test_one_number_is_below_another_if_the_intervals_do_not_meet():
    def holds(here, there):
        rows = [{"arm": "a", "seed": seed, "step": 1, "x": x} for seed, x in enumerate(here)]
        rows += [{"arm": "b", "seed": seed, "step": 1, "x": x} for seed, x in enumerate(there)]
        return below(final("x", arm="a"), final("x", arm="b"))(Records(rows, ("arm",)))

    assert holds([0.1, 0.2], [0.3, 0.4]) is True
    assert holds([0.1, 0.35], [0.3, 0.4]) is None
    assert holds([0.3, 0.4], [0.1, 0.2]) is False


def test_numbers_are_near_each_other_and_all_of_several_claims_hold():
    of = Records([{"arm": arm, "step": 1, "x": x} for arm, x in (("a", 0.5), ("b", 0.4), ("c", 0.395))], ("arm",))
    a, b, c = (final("x", arm=arm) for arm in "abc")
    assert near(b, c, 0.01)(of) is True
    assert near(a, 0.4, 0.05)(of) is False
    assert every([near(b, c, 0.01), near(a, b, 0.2)])(of) is True
    assert every(near(a, other, 0.2) for other in (b, 0.0))(of) is False


def test_a_number_without_an_interval_is_compared_as_it_is():
    of_length = above(lambda records: float(len(records)), 1)
    assert of_length(Records([{}, {}], ())) is True
    assert of_length(Records([{}], ())) is None


def test_a_claim_at_each_value_of_a_label_fails_with_one():
    def holds(*values):
        cells = [{"part": "a", "size": size, "step": 1, "x": x} for size, x in enumerate(values)]
        rows = [*cells, {"part": "a", "step": 1, "x": 0.0}, {"part": "b", "size": 9, "step": 1, "x": 0.0}]
        return at_each("size", above(final("x"), 0.5), part="a")(Records(rows, ("part", "size")))

    assert holds(0.7, 0.6) is True
    assert holds(0.7, 0.5) is None
    assert holds(0.4, 0.5) is False
    assert holds() is None


def test_a_claim_among_records_sees_no_others():
    records = Records([{"arm": arm, "step": 1, "x": x} for arm, x in (("a", 0.7), ("b", 0.4))], ("arm",))
    assert [among(above(final("x"), 0.5), arm=arm)(records) for arm in ("a", "b")] == [True, False]


@pytest.mark.parametrize(
    ("parts", "whole"),
    [((True, True), True), ((True, None), None), ((None, False), False), ((np.bool_(True), np.bool_(False)), False)],
)
def test_a_claim_of_parts(parts, whole):
    assert all_of(parts) is whole


def test_equal_within_a_margin_pairs_the_seeds():
    seeds = np.array([0.1, 0.5, 0.9])
    assert equal_within(seeds, seeds + 0.01, 0.05) is True
    assert equal_within(seeds, seeds + 0.2, 0.05) is False
    assert equal_within(seeds, seeds[::-1], 0.05) is None
    with pytest.raises(TooFewSeeds):
        equal_within(seeds[:1], seeds[:1], 0.05)


def test_a_difference_is_paired_by_seed():
    def of(arm, *values, first=0):
        return [{"arm": arm, "seed": seed, "step": 1, "x": x} for seed, x in enumerate(values, first)]

    less = difference("x", {"arm": "a"}, {"arm": "b"})
    rows = Records([*of("a", 0.2, 0.6, 0.9), *of("b", 0.1, 0.5, 0.8)], ("arm",))
    # The two intervals meet; that of the difference is a point.
    assert above(final("x", arm="a"), final("x", arm="b"))(rows) is None
    assert less(rows).low == pytest.approx(0.1)
    assert above(less, 0)(rows) is True
    assert above(less, 0.2)(rows) is False
    assert above(less, 0)(Records([*of("a", 0.2, 0.6), *of("b", 0.3, 0.5)], ("arm",))) is None
    assert above(less, 0)(Records([*of("a", 0.2), *of("b", 0.1)], ("arm",))) is None
    with pytest.raises(NotRecorded, match="different seeds"):
        less(Records([*of("a", 0.2, 0.6), *of("b", 0.1, 0.5, first=1)], ("arm",)))


def test_tuned_is_the_place_of_the_largest_mean_at_the_end():
    rows = [
        {"arm": "a", "learning_rate": rate, "seed": seed, "step": step, "score": score}
        for rate, scores in ((0.1, (9.0, 2.0)), (0.2, (1.0, 3.0)))
        for seed in (0, 1)
        for step, score in enumerate(scores)
    ]
    records = Records(rows, ("arm", "learning_rate"))
    assert tuned(records, "score", arm="a") == {"arm": "a", "learning_rate": 0.2}
    with pytest.raises(LookupError):
        records.final("score", **tuned(records, "score", arm="b"))


def test_a_share_of_runs_is_above_or_below_a_limit_if_its_interval_is():
    def rows(*found):
        return Records([{"arm": "a", "seed": seed, "step": 1, "x": x} for seed, x in enumerate(found)], ("arm",))

    number, half = share("x", arm="a"), rows(1, 0, 1, 0)
    assert number(half).mean == 0.5
    assert share_above("x", 0.5, arm="a")(half) == number(half)
    assert share_above("x", 1.0, arm="a")(half).mean == 0.0
    assert above(number, 0.5)(half) is below(number, 0.5)(half) is None
    all_of_ten = rows(*[1] * 10)
    assert above(number, 0.5)(all_of_ten) is True
    assert below(number, 0.5)(all_of_ten) is False
    with pytest.raises(NotRecorded):
        share("x", arm="b")(half)
