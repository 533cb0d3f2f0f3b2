"""Which penalty is best, by the prompts that choose, and what it does on the others, in records of `Searchers.curve`.

Curves have the labels `search`, `objective`, `penalised`, `alpha` and `beta`; the largest beta means everywhere.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.thought_switching.thought_switches import PLACEBO, PRIOR, SWITCH
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.study.numbers import Computed, Number

EVERYWHERE, FIRST_TOKENS = "everywhere", "first tokens"
FLAT = 0.01
"""Differences of accuracy that do not count between the alphas of one seed."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """A penalty that records choose.

    Attributes:
      words: what it is.
      labels: records -> the labels of one curve.
    """

    words: str
    labels: Callable[[Records], dict[str, Any]]


def best(search: str, objective: str = PRIOR, window: str = "") -> Choice:
    """The `alpha` above 0 and the `beta` of the largest mean accuracy on the prompts that choose.

    So its gain may be below 0. Among equals it is the smallest alpha, and then the smallest beta.

    Args:
      window: EVERYWHERE or FIRST_TOKENS, to choose only from these penalties.
    """

    def labels(records: Records) -> dict[str, Any]:
        rows = _on_switches(records, search, objective)
        longest = max(records.distinct("beta"))
        means = {
            (cell["alpha"], cell["beta"]): of_cell.column("tuning").mean()
            for cell, of_cell in rows.each("alpha", "beta")
            if cell["alpha"] > 0
            and window in ("", EVERYWHERE if cell["beta"] == longest else FIRST_TOKENS)
        }
        if not means:
            raise NotRecorded(f"there is no penalty {window} to choose from")
        alpha, beta = min(means, key=lambda cell: (-means[cell], *cell))
        return _curve(search, objective) | {"alpha": alpha, "beta": beta}

    return Choice(f"the best penalty {window}".rstrip(), labels)


def strongest(search: str) -> Choice:
    """The largest alpha on switches of the prior, everywhere."""

    def labels(records: Records) -> dict[str, Any]:
        rows = _on_switches(records, search, PRIOR)
        return _curve(search, PRIOR) | {
            name: max(rows.distinct(name)) for name in ("alpha", "beta")
        }

    return Choice("the strongest penalty", labels)


def at(value: str, choice: Choice, **labels: Any) -> Number:
    """A value at a choice with other labels, such as without strength (`alpha=0.0`)."""
    where = ", ".join([choice.words, *map(str, labels.values())])
    return Computed(
        f"{value} at {where}",
        lambda records: records.ends(value, **choice.labels(records) | labels),
    )


def gain(value: str, choice: Choice, **labels: Any) -> Number:
    """A value at a choice of penalty less the same value without a penalty (`alpha=0.0`)."""
    return at(value, choice, **labels) - at(value, choice, **labels | {"alpha": 0.0})


def best_alpha(search: str, objective: str) -> Number:
    """The smallest `alpha` of each seed whose `tuning` accuracy at some beta is within `FLAT` of the seed's largest.

    Where hardly anything depends on alpha, the place of the largest accuracy alone would be a matter of chance.
    """

    def of_each_seed(records: Records) -> np.ndarray:
        found = []
        for _, rows in _on_switches(records, search, objective).each("seed"):
            accuracy = rows.column("tuning")
            found.append(rows.column("alpha")[accuracy >= accuracy.max() - FLAT].min())
        return np.array(found)

    return Computed(f"best alpha of a seed of {search}, {objective}", of_each_seed)


def by_rule(records: Records) -> Records:
    """Records with a label `rule`: the window of penalties on switches.

    Of the placebo there is the penalty everywhere, "on a vertex".
    """

    longest = max(records.distinct("beta"))

    def rule(penalised: str, beta: float) -> str:
        if penalised == PLACEBO:
            return "on a vertex" if beta == longest else ""
        return EVERYWHERE if beta == longest else f"first {beta:g} tokens"

    rows = [row | {"rule": rule(row["penalised"], row["beta"])} for row in records.rows]
    return Records([row for row in rows if row["rule"]], (*records.labels, "rule"))


def _curve(search: str, objective: str) -> dict[str, Any]:
    return {"search": search, "objective": objective, "penalised": SWITCH}


def _on_switches(records: Records, search: str, objective: str) -> Records:
    rows = records.where(**_curve(search, objective)).having("tuning")
    if not rows:
        raise NotRecorded(f"there is no record of tuning of {search}, {objective}")
    return rows
