"""Which divergence is better, in records of `preferred_actions` with the labels part, reference, divergence, beta."""

import itertools
from collections.abc import Mapping
from typing import Any

from experiments.divergences.preferred_actions import REFERENCES
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.study.claims import Claim, all_of, any_of, at_each, below, close
from ipsrl.study.numbers import Number, difference, final

DIVERGENCES = REVERSE, FORWARD, JENSEN_SHANNON, ALPHA = (
    "reverse_kl",
    "forward_kl",
    "jensen_shannon",
    "alpha",
)
UNIFORM, SKEWED = REFERENCES
PARTS = PREFERENCES, OPTIMUM, MINIMISER, PENALTY, PAIRS = (
    "exact preferences",
    "optimum",
    "minimiser",
    "penalty",
    "pairs",
)


def labels(part: str, divergence: str, reference: str = UNIFORM) -> dict[str, str]:
    """Of the curves of all weights."""
    return {"part": part, "reference": reference, "divergence": divergence}


def of(value: str, part: str, divergence: str, beta: float, reference: str = UNIFORM) -> Number:
    """A value at one weight."""
    return final(value, beta=beta, **labels(part, divergence, reference))


def each_beta(claim: Claim, part: str, divergence: str, reference: str = UNIFORM) -> Claim:
    """Whether a claim holds at each weight."""
    return at_each("beta", claim, **labels(part, divergence, reference))


def some_beta(claim: Claim, part: str, divergence: str, reference: str = UNIFORM) -> Claim:
    """Whether a claim holds at one of the weights."""
    chosen = labels(part, divergence, reference)
    return lambda records: any_of(claim(rows) for _, rows in records.where(**chosen).each("beta"))


def lower(value: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Claim:
    """Whether a value is lower in curves with some labels than in others, paired by seed, at each weight of both."""

    def claim(records: Records) -> bool | None:
        weights = [set(records.where(**chosen).distinct("beta")) for chosen in (one, other)]
        pair = (
            ({**one, "beta": beta}, {**other, "beta": beta})
            for beta in sorted(set.intersection(*weights))
        )
        return all_of(below(difference(value, *both), 0.0)(records) for both in pair)

    return claim


def in_order(value: str, part: str, *divergences: str) -> list[Claim]:
    """Whether a value is, at each weight, lower under each divergence than under the next one."""
    pairs = itertools.pairwise(divergences)
    return [lower(value, labels(part, one), labels(part, other)) for one, other in pairs]


def as_calibrated(part: str, divergence: str, by: float) -> Claim:
    """Whether preferences have, at each weight, the calibration error that they have under reverse KL, within `by`."""
    number = difference("error of preferences", labels(part, divergence), labels(part, REVERSE))
    return at_each(
        "beta", lambda records: close(number(records), 0.0, by), part=part, reference=UNIFORM
    )


def never_positive(value: str) -> Claim:
    """Whether a value is 0 at most in every policy, but for rounding."""

    def claim(records: Records) -> bool:
        rows = records.having(value)
        if not rows:
            raise NotRecorded(f"there is no record of {value}")
        return bool(rows.column(value).max() <= 1e-6)

    return claim
