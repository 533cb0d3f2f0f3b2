"""Records made up so that a claim is supported, refuted or undecided."""

import collections
import dataclasses
import math

import numpy as np
from scipy.optimize import linprog

from ipsrl.records.tidy import Records
from ipsrl.study.claims import AtEach, Claim, Comparison, Every, Some
from ipsrl.study.numbers import Best, Combined, Computed, Constant, Final, Number, Share

LAST_STEP = 10**6
RUNS = 5000
"""The most runs that decide a share near its limit."""


def with_stand_ins(part):
    """A claim with a recorded value in the place of each number that a function computes."""
    match part:
        case Computed(words, _, labels):
            return Final(words, labels)
        case tuple():
            return tuple(map(with_stand_ins, part))
        case Claim() | Number():
            fields = {field.name: with_stand_ins(getattr(part, field.name)) for field in dataclasses.fields(part)}
            return dataclasses.replace(part, **fields)
    return part


def wanted(claim, verdict):
    """Number, lower and upper limit: where numbers must lie for a verdict."""
    match claim:
        case Comparison(number, low, high):
            beyond = (-math.inf, low) if high == math.inf else (high, math.inf)
            yield (number, low, high) if verdict else (number, *beyond)
        case AtEach(label, of_value, labels):
            yield from wanted(of_value.within(**labels, **{label: 1}), verdict)
        case Every(parts) | Some(parts):
            all_count = isinstance(claim, Every) == verdict
            for part in parts if all_count else parts[:1]:
                yield from wanted(part, verdict)
        case _:
            raise TypeError(f"no records can be made up for {claim}")


def linear(number):
    """The coefficient of each value that is read, by name, labels and kind; that of () is the constant."""
    match number:
        case Constant(value):
            return {(): value}
        case Final(value, labels) | Share(value, labels, _):
            return {(value, tuple(sorted(labels.items(), key=str)), getattr(number, "limit", None), type(number)): 1.0}
        case Best(number=inner):
            return linear(inner)
        case Combined(sign, left, right):
            one, other = linear(left), linear(right)
            if sign == "*" and one.keys() <= {()}:
                one, other = other, one
            if sign in "*/" and other.keys() <= {()}:
                by = other.get((), 0.0) if sign == "*" else 1 / other[()]
                return {key: by * coefficient for key, coefficient in one.items()}
            if sign in "+-":
                total = collections.defaultdict(float, one)
                for key, coefficient in other.items():
                    total[key] += coefficient if sign == "+" else -coefficient
                return total
    raise TypeError(f"{number} is no weighted sum of recorded values")


def solved(claim, verdict):
    """Leaf -> its mean, as far from all limits as can be, up to 1; and this distance, 0 if there is no such verdict."""
    limits = list(wanted(claim, verdict))
    forms = [linear(number) for number, _, _ in limits]
    leaves = list(dict.fromkeys(key for form in forms for key in form if key))
    rows, bounds = [], []
    for form, (_, low, high) in zip(forms, limits, strict=True):
        coefficients = np.array([form.get(leaf, 0.0) for leaf in leaves])
        if low > -math.inf:
            rows.append([*-coefficients, 1.0])
            bounds.append(form.get((), 0.0) - low)
        if high < math.inf:
            rows.append([*coefficients, 1.0])
            bounds.append(high - form.get((), 0.0))
    ranges = [(0, 1) if leaf[3] is Share else (-1e6, 1e6) for leaf in leaves]
    found = linprog([*np.zeros(len(leaves)), -1.0], rows, bounds, bounds=[*ranges, (0, 1)])
    assert found.success, f"no records give {verdict}"
    return dict(zip(leaves, found.x[:-1], strict=True)), found.x[-1]


def records_for(claim, verdict, seeds=8, noise=1e-3):
    """Records of which a claim has a verdict.

    Args:
      noise: standard deviation of values, as a share of their distance from the nearest limit.
    """
    means, slack = solved(claim, verdict)
    assert slack > 1e-9, f"no records give {verdict}"
    rng, rows = np.random.default_rng(0), collections.defaultdict(dict)
    of_best = [number for number in numbers_of(claim) if isinstance(number, Best)]
    scores = {number.score for number in of_best}
    rates = {name: 0.1 for number in of_best for name in number.among}
    if any(leaf[3] is Share for leaf in means) and seeds == 8:
        seeds = min(RUNS, math.ceil((4 / slack) ** 2))
    for (value, labels, limit, kind), mean in means.items():
        if kind is Share:
            happened = np.arange(seeds) < round(mean * seeds)
            drawn = happened * 1.0 if limit is None else limit + np.where(happened, 1.0, -1.0)
        else:
            spread = rng.normal(size=seeds)
            drawn = mean + noise * slack * (spread - spread.mean())
        for seed in range(seeds):
            step = dict(labels).get("step", LAST_STEP)
            key = (tuple(item for item in labels if item[0] != "step"), step, seed)
            # A curve whose rate a number names is not the best one.
            worth = -1e6 if rates.keys() & dict(labels).keys() else 0.0
            rows[key] = dict.fromkeys(scores, worth) | rows[key] | {value: drawn[seed]}
    for number in of_best:
        for of_curve, *where in list(rows):
            judges = (tuple(sorted((dict(of_curve) | number.judged_at).items(), key=str)), *where)
            rows[judges] = dict.fromkeys(scores, 0.0) | rows[judges]
    names = {name for of_curve, _, _ in rows for name, _ in of_curve}
    ordered = sorted(rows.items(), key=lambda row: row[0][1])
    tidy = [
        rates | dict(of_curve) | {"step": step, "seed": seed} | values for (of_curve, step, seed), values in ordered
    ]
    return Records(tidy, (*names, *rates))


def numbers_of(claim):
    """All numbers that a claim is made of, those inside of others too."""
    for number, _, _ in [*wanted(claim, True), *wanted(claim, False)]:
        stack = [number]
        while stack:
            yield (each := stack.pop())
            stack += [each.left, each.right] if isinstance(each, Combined) else []
