"""Decisions by intervals, and the division of the error rate among all claims that could make an error."""

import numpy as np
import pytest
from scipy.stats import binomtest

from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import NotRecorded, Records, TooFewSeeds
from ipsrl.study import (
    Best,
    Computed,
    above,
    among,
    at_each,
    at_some,
    below,
    difference,
    every,
    final,
    near,
    share,
    share_above,
    some,
)
from ipsrl.study.claims import Comparison, decided, decision, lines, measured

X = final("x", arm="a")


def records(first=0, **arms):
    """Records of each arm's values at the end, one for each seed; a single number is an exact value, without seeds."""
    rows = []
    for arm, values in arms.items():
        if np.ndim(values) == 0:
            rows.append({"arm": arm, "step": 1, "x": values})
        else:
            rows += [{"arm": arm, "seed": seed, "step": 1, "x": value} for seed, value in enumerate(values, first)]
    return Records(rows, ("arm",))


@pytest.mark.parametrize(
    ("claim", "supported", "refuted"),
    [
        (above(X, 0.5), [0.7, 0.71, 0.72, 0.7, 0.71], [0.3, 0.31, 0.32, 0.3, 0.31]),
        (above(X, 0.5, by=0.1), [0.7, 0.71, 0.72, 0.7, 0.71], [0.55, 0.56, 0.54, 0.55, 0.55]),
        (below(X, 0.5), [0.3, 0.31, 0.32, 0.3, 0.31], [0.7, 0.71, 0.72, 0.7, 0.71]),
        (below(X, 0.5, by=0.1), [0.3, 0.31, 0.32, 0.3, 0.31], [0.45, 0.46, 0.44, 0.45, 0.45]),
        (near(X, 0.5, 0.1), [0.49, 0.5, 0.51, 0.5, 0.5], [0.7, 0.71, 0.72, 0.7, 0.71]),
    ],
)
def test_an_interval_on_one_side_of_the_limit_decides(claim, supported, refuted):
    assert claim(records(a=supported)) is True
    assert claim(records(a=refuted)) is False
    assert claim(records(a=[0.0, 1.0, 0.2, 0.9, 0.4])) is None


def test_numbers_are_paired_by_seed():
    noise = np.array([0.1, 0.5, 0.9, 0.3, 0.7])
    better = records(a=noise + np.array([0.1, 0.11, 0.1, 0.09, 0.1]), b=noise)
    for less in (difference("x", {"arm": "a"}, {"arm": "b"}), final("x", arm="a") - final("x", arm="b")):
        assert less(better).mean == pytest.approx(0.1)
        assert less(better).high - less(better).low < 0.03
    assert above(X, final("x", arm="b"))(better) is True
    assert above(X, final("x", arm="b"), 0.2)(better) is False
    assert below(final("x", arm="b"), X)(better) is True
    assert near(X, final("x", arm="b"), 0.15)(better) is True
    with pytest.raises(NotRecorded, match="different: there are no pairs"):
        less(Records([*records(a=noise).rows, *records(first=1, b=noise).rows], ("arm",)))


def test_numbers_are_combined_seed_by_seed():
    of = records(a=[1.0, 2.0], b=[3.0, 5.0], exact=2.0)
    b, exact = final("x", arm="b"), final("x", arm="exact")
    assert ((X + b) / 2).of_seeds(of).values.tolist() == [2.0, 3.5]
    assert (1 - X * b).of_seeds(of).values.tolist() == [-2.0, -9.0]
    assert (b - exact).of_seeds(of).values.tolist() == [1.0, 3.0]
    assert (exact / 4)(of) == Interval(0.5, 0.5, 0.5, 0)
    assert str((X - b) / 2) == "((x of a - x of b) / 2)"


def test_a_number_may_be_computed():
    squares = Computed("squares", lambda rows: rows.ends("x") ** 2, {"arm": "a"})
    of = records(a=[1.0, 2.0], b=[3.0, 5.0])
    assert squares.of_seeds(of).values.tolist() == [1.0, 4.0]
    assert squares.within(arm="b").of_seeds(of).values.tolist() == [9.0, 25.0]
    assert Computed("count", len)(of) == Interval(4.0, 4.0, 4.0, 0)
    with pytest.raises(NotRecorded, match="3 values for 2 seeds"):
        Computed("wrong", lambda rows: np.zeros(3))(of)


def test_fewer_than_five_seeds_decide_nothing_and_exact_numbers_need_none():
    four = records(a=[0.7, 0.7, 0.7, 0.71])
    assert decision(above(X, 0.5), four).why == "it takes 5 seeds to decide, there are 4"
    assert decided({"so": above(X, 0.5)}, four) == {"so": None}
    assert decided({"so": above(X, 0.5)}, records(a=0.7)) == {"so": True}
    with pytest.raises(TooFewSeeds):
        above(X, 0.5).holds(four, 0.05)


def test_what_is_not_recorded_decides_nothing():
    found = decision(above(final("y"), 0.5), records(a=[0.7] * 5))
    assert (found.verdict, found.interval) == (None, None)
    assert found.why == "there is no record of y; recorded are x"
    assert lines({"so it is": found}) == [f"undecided: so it is ({found.why})"]
    assert measured({"x": X, "y": final("y")}, records(a=0.7)) == {"x": Interval(0.7, 0.7, 0.7, 0)}


def test_parts_and_how_many_were_tried():
    # The interval of these lies above 0 at 95 %, but not at 97.5 %.
    barely = [0.05, 0.2, 0.4, 0.2, 0.1]
    assert above(X, 0)(records(a=barely)) is True
    assert some([above(X, 0)] * 2)(records(a=barely)) is None
    assert every([above(X, 0)] * 2)(records(a=barely)) is True
    assert every([below(X, 0)] * 2)(records(a=barely)) is None
    clear, parts = records(a=[0.5] * 5), {True: above(X, 0), False: below(X, 0)}
    for one in (True, False):
        for other in (True, False):
            both = [parts[one], parts[other]]
            assert every(both)(clear) is (one and other)
            assert some(both)(clear) is (one or other)
    # One part refutes all, whatever was not recorded.
    for missing in (above(final("y"), 0), at_each("size", above(final("y"), 0))):
        assert decision(every([parts[False], missing]), clear).verdict is False


@pytest.mark.parametrize("several", [every, some])
def test_a_claim_of_no_parts_is_refused(several):
    with pytest.raises(ValueError, match="needs one part at least"):
        several([])


def test_a_claim_of_each_value_of_a_label():
    def holds(*values):
        cells = [{"part": "a", "size": size, "step": 1, "x": x} for size, x in enumerate(values)]
        rows = [*cells, {"part": "a", "step": 1, "x": 0.0}, {"part": "b", "size": 9, "step": 1, "x": 0.0}]
        claims = (of("size", above(final("x"), 0.5), part="a") for of in (at_each, at_some))
        return [decision(claim, Records(rows, ("part", "size"))).verdict for claim in claims]

    assert holds(0.7, 0.6) == [True, True]
    assert holds(0.7, 0.5) == [None, True]
    assert holds(0.4, 0.5) == [False, None]
    assert holds(0.7, 0.4) == [False, True]
    assert holds() == [None, None]


def test_a_claim_among_records_sees_no_others():
    of = records(a=0.7, b=0.4)
    assert [among(above(final("x"), 0.5), arm=arm)(of) for arm in ("a", "b")] == [True, False]


def test_the_number_that_decides_is_the_clearest_where_one_part_is_enough():
    """Clearness is in half-widths of intervals, whatever the units, at the level at which that part decides."""
    seeds = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    of = records(close=0.01 * seeds + 0.46, clear=0.5 * seeds - 40.0, true=seeds + 50.0)
    parts = [above(final("x", arm=arm), 0.5) for arm in ("close", "clear", "true")]
    refuted = decision(every(parts), of)
    assert (refuted.verdict, refuted.number) == (False, "x of clear")
    assert refuted.interval == final("x", arm="clear")(of, 1 - 0.05 / 3)
    supported = decision(some(parts), of)
    assert (supported.number, supported.interval) == ("x of true", final("x", arm="true")(of, 1 - 0.05 / 3))
    assert decision(every(parts[2:]), of).interval == final("x", arm="true")(of)
    around = [near(final("x", arm=arm), 0.0, 100.0) for arm in ("close", "clear", "true")]
    assert decision(every(around), of).number == "x of true"


@pytest.mark.parametrize("limits", [{}, {"low": 0.1, "high": 0.3}, {"low": 0.3, "high": -0.3}])
def test_a_claim_that_has_no_side_is_refused(limits):
    with pytest.raises(ValueError, match="a claim has one limit, or two around 0, not"):
        Comparison(X, **limits)


def test_the_number_that_decides_is_the_one_nearest_to_its_limit():
    of = records(a=0.7, b=0.4, c=0.9)
    numbers = [above(final("x", arm=arm), 0.3) for arm in "abc"]
    found = decision(every(numbers), of)
    assert (found.verdict, found.number, found.claimed, found.interval.mean) == (True, "x of b", "above 0.3", 0.4)
    found = decision(every([above(final("x", arm=arm), 0.5) for arm in "abc"]), of)
    assert (found.verdict, found.number) == (False, "x of b")
    assert decision(below(X, 0.3), of).claimed == "below 0.3"
    assert decision(near(X, 0.3, 0.1), of).claimed == "within 0.1 of 0"


def test_a_share_of_runs_has_the_binomial_interval():
    half = records(a=[1, 0, 1, 0, 1, 0])
    number = share("x", arm="a")
    exact = binomtest(3, 6).proportion_ci(0.9)
    assert number(half, 0.9).low == pytest.approx(exact.low)
    assert share_above("x", 0.5, arm="a")(half) == number(half)
    assert share_above("x", 1.0, arm="a")(half).mean == 0.0
    assert above(number, 0.5)(half) is below(number, 0.5)(half) is None
    assert above(number, 0.5)(records(a=[1] * 10)) is True
    assert below(number, 0.5)(records(a=[1] * 10)) is False
    with pytest.raises(NotRecorded):
        share("x", arm="b")(half)


def test_combined_shares_of_seeds_that_agree_are_as_unsure_as_each_share():
    one, other = share("x", arm="a"), share("x", arm="b")
    same = records(a=[1] * 10, b=[1] * 10)
    unseen = 1 - 0.025**0.1
    less, both, scaled = (one - other)(same), (one + (1 - other))(same), (2 - one * 4)(same)
    assert (less.low, less.high) == pytest.approx((-unseen, unseen))
    assert (both.low, both.high) == pytest.approx((1 - unseen, 1 + unseen))
    assert (scaled.low, scaled.high) == pytest.approx((-2, -2 + 4 * unseen))
    assert above(one, other, 0.2)(same) is None
    assert above(one, other, 0.5)(same) is False
    # A mean has no least and no most, and where seeds differ Student's t has a width of its own.
    assert (one - X)(same).low == (one - X)(same).high == 0
    differ = records(a=[1] * 9 + [0], b=[1] * 10)
    assert (one - other)(differ) == (X - final("x", arm="b"))(differ)


def test_a_number_of_the_best_curves_is_chosen_by_other_seeds():
    rows = [
        {"arm": "a", "rate": rate, "seed": seed, "step": 1, "x": value}
        for rate, values in enumerate(([0.9, 0.1], [0.2, 0.3]))
        for seed, value in enumerate(values)
    ]
    best = Best(X, "x", ("rate",))
    # The first rate is best for the even seed, so the odd one gets it.
    assert best.of_seeds(Records(rows, ("arm", "rate"))).values.tolist() == [0.2, 0.1]
    assert best.within(arm="b").number == final("x", arm="b")


def test_a_share_of_the_best_curves_has_its_exact_interval():
    rows = [{"arm": "a", "rate": 1, "seed": seed, "step": 1, "x": 1} for seed in range(10)]
    found = Best(share("x", arm="a"), "x", ("rate",))(Records(rows, ("arm", "rate")))
    assert (found.low, found.high) == pytest.approx((0.025**0.1, 1))
    found = Best(share("x", arm="a") - 1, "x", ("rate",))(Records(rows, ("arm", "rate")))
    assert (found.low, found.high) == pytest.approx((0.025**0.1 - 1, 0))
