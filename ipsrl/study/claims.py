"""Claims of a study and whether they hold; its main numbers beside those of the paper."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ipsrl.measures.seeds import Interval, mean_over_seeds, share_of_runs
from ipsrl.records.tidy import EXACT, NotRecorded, OneSeed, Records, interval_of

Claim = Callable[[Records], bool | None]
"""Whether records support it; None: undecided."""
Claims = Mapping[str, Claim]
"""A sentence -> the claim that it makes."""
Number = Callable[[Records], Interval | float]
Numbers = Mapping[str, Number]
"""A label -> a main number of the study."""

AGREES_WITHIN = 0.3
"""Largest relative difference from a number of a paper, which gives one or two digits and no intervals."""

VERDICTS = {True: "supported", False: "refuted", None: "undecided"}


def decided(claims: Claims, records: Records) -> dict[str, bool | None]:
    """Each claim with its truth value; None if the records lack its subject, or enough seeds for an interval."""
    found = {sentence: _ask(predicate, records)[0] for sentence, predicate in claims.items()}
    return {sentence: None if held is None else bool(held) for sentence, held in found.items()}


def measured(numbers: Numbers, records: Records) -> dict[str, Interval]:
    """The main numbers by label, without those that the records lack or that need more seeds."""
    found = {label: _ask(number, records)[0] for label, number in numbers.items()}
    return {label: _interval(value) for label, value in found.items() if value is not None}


def _interval(value: Interval | float) -> Interval:
    return value if isinstance(value, Interval) else Interval(value, value, value, EXACT)


def _ask(question: Callable[[Records], Any], records: Records) -> tuple[Any, str]:
    """The answer, or None and why there is none."""
    try:
        return question(records), ""
    except (NotRecorded, OneSeed) as error:
        return None, str(error)


def verdict(claims: Mapping[str, bool | None], numbers: Mapping[str, Interval], paper: Mapping[str, float]) -> str:
    """The verdict on all claims together, in a few words, and which numbers are far from the paper's."""
    if False in claims.values():
        return VERDICTS[False]
    if True not in claims.values():
        return VERDICTS[None]
    far = [
        label
        for label, value in paper.items()
        if label in numbers and abs(numbers[label].mean / value - 1) > AGREES_WITHIN
    ]
    undecided = sum(held is None for held in claims.values())
    parts = (
        VERDICTS[True],
        f"{undecided} undecided" * (undecided > 0),
        f"other numbers for {', '.join(far)}" * bool(far),
    )
    return ", ".join(filter(None, parts))


def lines(claims: Claims, records: Records) -> list[str]:
    """A line of text for each claim, with the reason where it is undecided."""
    found = {sentence: _ask(predicate, records) for sentence, predicate in claims.items()}
    return [f"{VERDICTS[held]}: {sentence}" + (f" ({why})" if why else "") for sentence, (held, why) in found.items()]


def stored(numbers: Mapping[str, Interval]) -> dict[str, Any]:
    """Numbers for summary.json: each a number, or an interval as {mean, low, high, seeds}."""
    return {
        label: number.mean if number.seeds == EXACT else dataclasses.asdict(number) for label, number in numbers.items()
    }


def shown(numbers: Mapping[str, Any]) -> str:
    """Numbers of a summary.json with labels and intervals, as one line of text."""
    return "; ".join(f"{label}: {as_text(number)}" for label, number in numbers.items())


def as_text(number: Any) -> str:
    """A number of a summary.json, with its interval if it has one."""
    if not isinstance(number, Mapping):
        return digits(number)
    low, high = number["low"], number["high"]
    return digits(number["mean"]) + ("" if low is None or high is None else f" [{digits(low)}, {digits(high)}]")


def digits(number: float | None) -> str:
    """The number with three digits, or with all digits before its point."""
    if number is None or math.isnan(number):
        return "none"
    # Below this a sum of probabilities differs from 0 by its rounding alone.
    number = 0.0 if abs(number) < 1e-12 else number
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def final(name: str, **labels: Any) -> Callable[[Records], Interval]:
    """For NUMBERS: the final value of the curve with these labels, as a mean over seeds."""
    return lambda records: records.final(name, **labels)


def share(name: str, **labels: Any) -> Callable[[Records], Interval]:
    """For NUMBERS: of the runs with these labels and values, the share in which a value at the end is not 0.

    The interval is the exact binomial one.
    """
    return lambda records: share_of_runs(records.where(**labels).at_end().column(name) != 0)


def share_above(name: str, limit: float, **labels: Any) -> Callable[[Records], Interval]:
    """As `share`, of the runs in which the value at the end is above a limit."""
    return lambda records: share_of_runs(records.ends(name, **labels) > limit)


def difference(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Callable[[Records], Interval]:
    """For NUMBERS and claims: a value at the end of one curve less that of another one, paired by seed.

    What a seed decides for both curves, such as the initial policy, leaves the difference, so that its interval is
    shorter than the two intervals suggest.

    Args:
      one, other: labels of the two curves.
    """

    def number(records: Records) -> Interval:
        ends = [records.ends(name, **labels) for labels in (one, other)]
        seeds = [records.at_end(**labels).having(name).column("seed").tolist() for labels in (one, other)]
        if seeds[0] != seeds[1]:
            raise NotRecorded(f"{name} of {dict(one)} and {dict(other)} has different seeds: there are no pairs")
        return interval_of(ends[0] - ends[1])

    return number


def above(number: Number, other: Number | float) -> Claim:
    """For CLAIMS: whether a number is above another one, or above a limit; None if intervals do not decide it."""
    return lambda records: _interval(number(records)).exceeds(other(records) if callable(other) else other)


def below(number: Number, other: Number | float) -> Claim:
    """For CLAIMS: whether a number is below another one, or below a limit; None if intervals do not decide it."""
    return above(other if callable(other) else lambda records: other, number)


def near(number: Number, other: Number | float, by: float) -> Claim:
    """For CLAIMS: whether a number differs from another one by less than `by`; None if intervals do not decide it."""
    return lambda records: close(number(records), other(records) if callable(other) else other, by)


def every(claims: Iterable[Claim]) -> Claim:
    """For CLAIMS: whether all of these hold."""
    parts = list(claims)
    return lambda records: all_of(claim(records) for claim in parts)


def among(claim: Claim, **labels: Any) -> Claim:
    """For CLAIMS: whether a claim holds of the records with these labels."""
    return lambda records: claim(records.where(**labels))


def at_each(label: str, claim: Claim, **labels: Any) -> Claim:
    """For CLAIMS: whether a claim holds of the records with each value of a label, among those with these labels."""
    return lambda records: all_of(claim(rows) for _, rows in records.where(**labels).having(label).each(label))


def all_of(parts: Iterable[bool | None]) -> bool | None:
    """Whether all parts of a claim hold: false if one is false, else undecided if one is, or if there is none."""
    found = list(parts)
    return False if False in found else True if found and None not in found else None


def any_of(parts: Iterable[bool | None]) -> bool | None:
    """Whether one part of a claim holds: undecided if none does and one is undecided, or if there is none."""
    found = list(parts)
    return True if True in found else False if found and None not in found else None


def close(one: Interval, other: Interval | float, by: float) -> bool | None:
    """Whether two means, or a mean and a number, differ by less than `by`; None if intervals do not decide it."""
    return all_of([one.exceeds(other, -by), _interval(other).exceeds(one, -by)])


def alike(intervals: Sequence[Interval], by: float) -> bool | None:
    """Whether positive means differ by a share `by` of the largest at most, by both ends of their intervals."""
    most = by * max(each.mean for each in intervals)
    if max(each.high for each in intervals) - min(each.low for each in intervals) <= most:
        return True
    return False if max(each.low for each in intervals) - min(each.high for each in intervals) > most else None


def equal_within(values: np.ndarray, others: np.ndarray, margin: float) -> bool | None:
    """Whether means of `[S]` and `[S]` values of the same seeds differ by less than a margin, by paired differences.

    Raises:
      OneSeed: there is one seed only.
    """
    if len(values) < 2:
        raise OneSeed("a difference needs two or more seeds")
    return close(mean_over_seeds(np.asarray(values) - np.asarray(others)), 0.0, margin)


def tuned(records: Records, value: str, along: str = "learning_rate", **labels: Any) -> dict[str, Any]:
    """These labels of curves, with the value of the label `along` at which the mean at the end is largest."""
    values = records.where(**labels).having(value).distinct(along)
    best = max(values, key=lambda place: records.mean(value, **labels, **{along: place}), default=None)
    return labels | {along: best}
