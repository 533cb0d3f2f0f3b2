"""Which penalty is best, by the prompts that choose, and what it does on the others, in records of `Searchers.curve`.

Curves have the labels `search`, `objective`, `penalised`, `alpha` and `beta`; the largest beta means everywhere.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from experiments.thought_switching.thought_switches import PRIOR, SWITCH
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import NotRecorded, Records, interval_of
from ipsrl.study.numbers import Number, difference

Choice = Callable[[Records], dict[str, Any]]
"""records -> the labels of one curve."""
Where = Literal["anywhere", "in the first tokens", "everywhere"]


def best(search: str, objective: str = PRIOR, where: Where = "anywhere") -> Choice:
    """The `alpha` above 0 and the `beta` of the largest mean accuracy on the prompts that choose.

    So its gain may be below 0. Among equals it is the smallest alpha, and then the smallest beta.

    Args:
      where: the penalties to choose from: all, those in the first tokens of a thought, or the others.
    """
    labels = {"search": search, "objective": objective, "penalised": SWITCH}

    def choose(records: Records) -> dict[str, Any]:
        rows, most = _tuning(records, labels), _everywhere(records)
        means = {
            (cell["alpha"], cell["beta"]): of_cell.column("tuning").mean()
            for cell, of_cell in rows.each("alpha", "beta")
            if cell["alpha"] > 0
            and (where == "anywhere" or (cell["beta"] == most) == (where == "everywhere"))
        }
        if not means:
            raise NotRecorded(f"there is no penalty {where} to choose from")
        alpha, beta = min(means, key=lambda cell: (-means[cell], *cell))
        return labels | {"alpha": alpha, "beta": beta}

    return choose


def strongest(search: str) -> Choice:
    """The largest alpha on switches of the prior, everywhere."""
    labels = {"search": search, "objective": PRIOR, "penalised": SWITCH}
    return lambda records: (
        labels
        | {"alpha": max(_tuning(records, labels).distinct("alpha")), "beta": _everywhere(records)}
    )


def changed(choice: Choice, **labels: Any) -> Choice:
    """A choice with other labels, such as without strength (`alpha=0.0`)."""
    return lambda records: choice(records) | labels


def at(name: str, choice: Choice) -> Number:
    """A value at a choice."""
    return lambda records: records.final(name, **choice(records))


def more(name: str, one: Choice, other: Choice) -> Number:
    """By how much a value is larger at one choice than at another, paired by seed."""
    return lambda records: difference(name, one(records), other(records))(records)


def gain(name: str, choice: Choice) -> Number:
    """What a penalty adds to a value."""
    return more(name, choice, changed(choice, alpha=0.0))


def best_alpha(search: str, objective: str, within: float) -> Number:
    """Mean of `best_alphas`."""
    return lambda records: interval_of(best_alphas(records, search, objective, within))


def alpha_moves(search: str, objective: str, within: float) -> Number:
    """By how much `best_alphas` are larger after training than before, paired by seed."""

    def number(records: Records) -> Interval:
        after, before = (best_alphas(records, search, name, within) for name in (objective, PRIOR))
        if len(after) != len(before):
            raise NotRecorded("there are not the same seeds before and after training")
        return interval_of(after - before)

    return number


def best_alphas(records: Records, search: str, objective: str, within: float) -> np.ndarray:
    """`[S]`, of each seed the smallest `alpha` that is, at some beta, within so much of the largest such accuracy.

    Where hardly anything depends on alpha, the place of the largest accuracy alone would be a matter of chance.
    """
    rows = _tuning(records, {"search": search, "objective": objective, "penalised": SWITCH})
    return np.array(
        [
            min(
                row["alpha"]
                for row in of_seed.rows
                if row["tuning"] >= of_seed.column("tuning").max() - within
            )
            for _, of_seed in rows.each("seed")
        ]
    )


def by_rule(panels: Sequence[Panel]) -> Callable[[Records, Any], Drawing]:
    """For FIGURE: panels of each search, whose curves have the label `rule` beside those of the records.

    It names the window of penalties on switches; of the placebo there is the penalty everywhere, "on a vertex".
    """

    def draw(records: Records, settings: Any) -> Drawing:
        rows = [row | {"rule": _rule(row, settings.betas[-1])} for row in records.rows]
        named = Records([row for row in rows if row["rule"]], (*records.labels, "rule"))
        return Panels(panels, each="search")(named, settings)

    return draw


def _rule(row: Mapping[str, Any], most: float) -> str:
    if row["penalised"] == SWITCH:
        return "everywhere" if row["beta"] == most else f"first {row['beta']:g} tokens"
    return "on a vertex" if row["beta"] == most else ""


def _tuning(records: Records, labels: dict[str, Any]) -> Records:
    rows = records.where(**labels).having("tuning")
    if not rows:
        raise NotRecorded(f"there is no record of tuning with {labels}")
    return rows


def _everywhere(records: Records) -> float:
    return max(records.having("beta").distinct("beta"))
