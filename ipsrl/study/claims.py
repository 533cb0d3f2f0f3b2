"""Claims of a study as data: each knows the number that decides it, and decides by intervals that cover what they say.

    CLAIMS = {
        "GRPO loses an outcome in over half of its runs": above(share("lost", arm="grpo"), 0.5),
        "IPS-GRPO ends with a reward within 0.02 of GRPO's": near(final("reward", arm="ips_grpo"), grpo, 0.02),
    }

A claim is supported or refuted if an interval of level 1 - `ERROR` lies on one side of its limit, and undecided
otherwise, or with fewer than `LEAST` seeds. Where one of several parts is enough to decide, for `some` claims to be
supported and for `every` claim to be refuted, the error is divided by their number (Bonferroni).
"""

import abc
import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import EXACT, NotRecorded, Records, TooFewSeeds
from ipsrl.study.numbers import LEVEL, Number, as_number

ERROR = 1 - LEVEL
LEAST = 5
"""Fewest seeds that decide a claim."""
AGREES_WITHIN = 0.3
"""Largest relative difference from a number of a paper, which gives one or two digits and no intervals."""

VERDICTS = {True: "supported", False: "refuted", None: "undecided"}


class Claim(abc.ABC):
    """A statement that records support, refute or leave undecided."""

    @abc.abstractmethod
    def holds(self, records: Records, error: float) -> bool:
        """Whether intervals of level 1 - `error` support it.

        Raises:
          NotRecorded: the records lack its subject.
          TooFewSeeds: there are fewer seeds than `LEAST`.
        """

    @abc.abstractmethod
    def fails(self, records: Records, error: float) -> bool:
        """Whether intervals of level 1 - `error` refute it; raises as `holds`."""

    @abc.abstractmethod
    def within(self, **labels: Any) -> "Claim":
        """The same claim of the records with these labels."""

    @abc.abstractmethod
    def deciding(self, records: Records, verdict: bool | None, error: float) -> "Measured":
        """The comparison that decides its verdict, with the interval that does; raises as `holds`."""

    def __call__(self, records: Records, error: float = ERROR) -> bool | None:
        """Whether the records support it; None: undecided."""
        return True if self.holds(records, error) else False if self.fails(records, error) else None


@dataclasses.dataclass(frozen=True)
class Comparison(Claim):
    """Whether a number lies above `low` and below `high`, of which one may be infinite."""

    number: Number
    low: float = -math.inf
    high: float = math.inf

    @property
    def limit(self) -> float:
        """The finite one, or the upper one of two."""
        return self.low if self.high == math.inf else self.high

    def __post_init__(self):
        finite = [limit for limit in (self.low, self.high) if math.isfinite(limit)]
        if not finite or (len(finite) == 2 and not -self.low == self.high > 0):
            raise ValueError(f"a claim has one limit, or two around 0, not {self.low:g} and {self.high:g}")

    @property
    def claimed(self) -> str:
        """The range of the number if the claim is true, in words."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            return f"within {self.limit:g} of 0"
        return f"{'above' if self.high == math.inf else 'below'} {self.limit:g}"

    def lies(self, interval: Interval) -> bool | None:
        """Whether all of an interval lies on the claim's side of the limits; None if one of them divides it."""
        is_above = self.low == -math.inf or interval.low > self.low
        is_below = self.high == math.inf or interval.high < self.high
        if is_above and is_below:
            return True
        return False if interval.high < self.low or interval.low > self.high else None

    def interval(self, records: Records, error: float = ERROR) -> Interval:
        """The number that decides; raises as `holds`."""
        found = self.number(records, 1 - error)
        if EXACT < found.seeds < LEAST:
            raise TooFewSeeds(f"it takes {LEAST} seeds to decide, there are {found.seeds}")
        return found

    def holds(self, records: Records, error: float) -> bool:
        return self.lies(self.interval(records, error)) is True

    def fails(self, records: Records, error: float) -> bool:
        return self.lies(self.interval(records, error)) is False

    def within(self, **labels: Any) -> "Comparison":
        return dataclasses.replace(self, number=self.number.within(**labels))

    def deciding(self, records: Records, verdict: bool | None, error: float) -> "Measured":
        return self, self.interval(records, error)

    def clearness(self, interval: Interval) -> tuple[float, float]:
        """Distance of the mean from the nearer limit, in half-widths of the interval: numbers have different units.

        The second number, the distance itself, orders exact numbers, which have no width.
        """
        distance = min(abs(interval.mean - limit) for limit in (self.low, self.high))
        width = (interval.high - interval.low) / 2
        return distance / width if width else math.inf, distance


Measured = tuple[Comparison, Interval]


@dataclasses.dataclass(frozen=True)
class Several(Claim):
    """Base of claims that several others decide.

    Raises:
      ValueError: there is no part: such a claim could not fail.
    """

    parts: tuple[Claim, ...]
    decided_by_one: ClassVar[bool]
    """The verdict for which one part is enough."""

    def __post_init__(self):
        if not self.parts:
            raise ValueError("a claim of several needs one part at least")

    def within(self, **labels: Any) -> "Several":
        return type(self)(tuple(part.within(**labels) for part in self.parts))

    def deciding(self, records: Records, verdict: bool | None, error: float) -> Measured:
        """The clearest part where one is enough, at its share of the error; otherwise the least clear one."""
        one, found = verdict is self.decided_by_one, []
        for part in self.parts:
            # Where one part decides, others may not be recorded.
            with contextlib.suppress(NotRecorded, TooFewSeeds):
                found.append(part.deciding(records, verdict, error / len(self.parts) if one else error))
        if not found:
            raise NotRecorded("no part of the claim is recorded")
        ranked = sorted(found, key=lambda measured: measured[0].clearness(measured[1]), reverse=one)
        # Undecided is a claim, too, whose only part on the other side is not clear enough for its share of the error.
        for wanted in (verdict, self.decided_by_one):
            for comparison, interval in ranked:
                if comparison.lies(interval) is wanted:
                    return comparison, interval
        return ranked[0]


class Every(Several):
    """Whether all of several claims hold."""

    decided_by_one = False

    def holds(self, records: Records, error: float) -> bool:
        return all(part.holds(records, error) for part in self.parts)

    def fails(self, records: Records, error: float) -> bool:
        return any(part.fails(records, error / len(self.parts)) for part in self.parts)


class Some(Several):
    """Whether one or more of several claims hold."""

    decided_by_one = True

    def holds(self, records: Records, error: float) -> bool:
        return any(part.holds(records, error / len(self.parts)) for part in self.parts)

    def fails(self, records: Records, error: float) -> bool:
        return all(part.fails(records, error) for part in self.parts)


@dataclasses.dataclass(frozen=True)
class AtEach(Claim):
    """Whether a claim holds at each value of a label that the records have, or, with `some`, at one or more.

    Attributes:
      label: its values are those of the records with `labels`.
      claim: of the records with one of these values, and `labels`.
      some: one is enough.
    """

    label: str
    claim: Claim
    labels: Mapping[str, Any]
    some: bool = False

    def whole(self, records: Records) -> Every | Some:
        """The same as one claim for each value.

        Raises:
          NotRecorded: no record has the label.
        """
        values = records.where(**self.labels).distinct(self.label)
        if not values:
            raise NotRecorded(f"there is no record with a label {self.label}")
        parts = tuple(self.claim.within(**self.labels, **{self.label: value}) for value in values)
        return Some(parts) if self.some else Every(parts)

    def holds(self, records: Records, error: float) -> bool:
        return self.whole(records).holds(records, error)

    def fails(self, records: Records, error: float) -> bool:
        return self.whole(records).fails(records, error)

    def within(self, **labels: Any) -> "AtEach":
        return dataclasses.replace(self, labels={**self.labels, **labels})

    def deciding(self, records: Records, verdict: bool | None, error: float) -> Measured:
        return self.whole(records).deciding(records, verdict, error)


Claims = Mapping[str, Claim]
"""A sentence -> the claim that it makes."""
Numbers = Mapping[str, Number]
"""A label -> a main number of the study, which no claim says."""


@dataclasses.dataclass(frozen=True)
class Decision:
    """The verdict of records on a claim.

    Attributes:
      verdict: one of the keys of `VERDICTS`.
      number: what decides: of several parts the clearest where one is enough, and otherwise the least clear one.
      claimed: where that number lies if the claim is true.
      interval: its mean with the interval; None if the records lack it.
      why: the reason if the claim is undecided for want of records or seeds.
    """

    verdict: bool | None
    number: str = ""
    claimed: str = ""
    interval: Interval | None = None
    why: str = ""


def decision(claim: Claim, records: Records, error: float = ERROR) -> Decision:
    """The verdict of records on a claim, by intervals of level 1 - `error`."""
    try:
        verdict = claim(records, error)
        part, interval = claim.deciding(records, verdict, error)
    except (NotRecorded, TooFewSeeds) as missing:
        return Decision(None, why=str(missing))
    return Decision(verdict, str(part.number), part.claimed, interval)


def decided(claims: Claims, records: Records) -> dict[str, bool | None]:
    """Each claim with its truth value; None if the records lack its subject, or enough seeds for an interval."""
    return {sentence: decision(claim, records).verdict for sentence, claim in claims.items()}


def measured(numbers: Numbers, records: Records) -> dict[str, Interval]:
    """The main numbers by label, without those that the records lack or that need more seeds."""
    found = {}
    for label, number in numbers.items():
        with contextlib.suppress(NotRecorded, TooFewSeeds):
            found[label] = number(records)
    return found


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


def lines(decisions: Mapping[str, Decision]) -> list[str]:
    """A line of text for each sentence: its verdict, and the reason where records or seeds are missing."""
    return [
        f"{VERDICTS[each.verdict]}: {sentence}" + (f" ({each.why})" if each.why else "")
        for sentence, each in decisions.items()
    ]


def decisive(decisions: Mapping[str, Decision]) -> dict[str, Any]:
    """The number that decides each sentence, for summary.json: {of, claimed, mean, low, high, seeds}."""
    return {
        sentence: {"of": each.number, "claimed": each.claimed, **dataclasses.asdict(each.interval)}
        for sentence, each in decisions.items()
        if each.interval is not None
    }


def stored(numbers: Mapping[str, Interval]) -> dict[str, Any]:
    """Numbers for summary.json: each a number, or an interval as {mean, low, high, seeds}."""
    return {
        label: number.mean if number.seeds == EXACT else dataclasses.asdict(number) for label, number in numbers.items()
    }


def shown(numbers: Mapping[str, Any]) -> str:
    """Numbers of a summary.json with labels and intervals, as one line of text."""
    return "; ".join(f"{label}: {as_text(number)}" for label, number in numbers.items())


def as_text(number: Any) -> str:
    """A number of a summary.json, with its interval unless it is exact or of one seed."""
    if not isinstance(number, Mapping):
        return digits(number)
    low, high = number["low"], number["high"]
    bare = number["seeds"] == EXACT or low is None or high is None
    return digits(number["mean"]) + ("" if bare else f" [{digits(low)}, {digits(high)}]")


def digits(number: float | None) -> str:
    """The number with three digits, or with all digits before its point."""
    if number is None or math.isnan(number):
        return "none"
    # Below this a sum of probabilities differs from 0 by its rounding alone.
    number = 0.0 if abs(number) < 1e-12 else number
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def above(number: Number | float, other: Number | float, by: float = 0.0) -> Comparison:
    """Whether a number is more than `by` above another one, paired by seed, or above a limit.

    A negative `by` is how far below it may be.
    """
    if isinstance(other, Number):
        return Comparison(as_number(number) - other, low=by)
    return Comparison(as_number(number), low=other + by)


def below(number: Number | float, other: Number | float, by: float = 0.0) -> Comparison:
    """Whether a number is more than `by` below another one, paired by seed, or below a limit."""
    number = as_number(number)
    if isinstance(other, Number):
        number, other = number - other, 0.0
    return Comparison(number, high=other - by)


def near(number: Number, other: Number | float, by: float) -> Comparison:
    """Whether a number differs from another one, paired by seed, or from a limit by less than `by`."""
    return Comparison(number if other == 0 else number - other, -by, by)


def every(claims: Iterable[Claim]) -> Every:
    """Whether all of these hold."""
    return Every(tuple(claims))


def some(claims: Iterable[Claim]) -> Some:
    """Whether one or more of these hold."""
    return Some(tuple(claims))


def among(claim: Claim, **labels: Any) -> Claim:
    """Whether a claim holds of the records with these labels."""
    return claim.within(**labels)


def at_each(label: str, claim: Claim, **labels: Any) -> AtEach:
    """Whether a claim holds at each value of a label, among the records with these labels."""
    return AtEach(label, claim, labels)


def at_some(label: str, claim: Claim, **labels: Any) -> AtEach:
    """Whether a claim holds at one or more values of a label, among the records with these labels."""
    return AtEach(label, claim, labels, some=True)
