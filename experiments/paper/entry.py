"""One figure or table: how it is made, what it should show, and whether it does."""

import dataclasses
import shlex
from collections.abc import Callable, Mapping
from typing import Any

Summary = Mapping[str, Any]
"""What a summary.json holds."""
Number = float | Mapping[str, float | None]
"""A number of a summary, or an interval over seeds as {mean, low, high, seeds}; low and high are None for one seed."""

AGREES_WITHIN = 0.3
"""Largest relative difference from a number of the paper, which gives one or two digits and no intervals."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One figure or table.

    Attributes:
      shows: what it is.
      experiment: the module of `experiments` behind it.
      figure: name of the files that it draws; empty where there is a table only.
      minutes: that the demo takes on two CPU cores, more or less.
      claim: what it should show, in words.
      holds: whether it does, by the summary; None where that takes intervals, and there is one seed.
      numbers: the main numbers of the summary, by label.
      paper: those that the paper gives, by the same labels.
      flags: preset -> the flags that it has beyond the preset, name -> value.
    """

    shows: str
    experiment: str
    figure: str
    minutes: float
    claim: str
    holds: Callable[[Summary], bool | None]
    numbers: Callable[[Summary], dict[str, Number]]
    paper: Mapping[str, float] = dataclasses.field(default_factory=dict)
    flags: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def request(self, preset: str) -> dict[str, str]:
        """The run behind it, as `experiments.sweeps.runs` reads it."""
        return {"experiment": self.experiment, "preset": preset, **self.flags.get(preset, {})}

    def command(self, preset: str) -> str:
        """The same as a user types it, but for --out."""
        flags = [f"--{name}={value}" for name, value in self.flags.get(preset, {}).items()]
        return shlex.join(["python", "-m", f"experiments.{self.experiment}", f"--preset={preset}", *flags])

    def verdict(self, summary: Summary) -> str:
        """Whether the claim holds, and the numbers with it."""
        if not (held := self.holds(summary)):
            return "needs two seeds or more" if held is None else "does not hold"
        numbers = self.numbers(summary)
        far = [label for label, value in self.paper.items() if abs(mean(numbers[label]) / value - 1) > AGREES_WITHIN]
        return f"holds, other numbers for {', '.join(far)}" if far else "holds"


def mean(number: Number) -> float:
    return number["mean"] if isinstance(number, Mapping) else number


def apart(less: Mapping[str, float | None], more: Mapping[str, float | None]) -> bool | None:
    """Whether the interval of the second lies above that of the first; None where one of them is missing."""
    high, low = less["high"], more["low"]
    return None if high is None or low is None else high < low


def shown(numbers: Mapping[str, Number]) -> str:
    """Numbers and their labels in a line of text, with intervals where there are some."""
    return ", ".join(f"{label} {_shown(number)}" for label, number in numbers.items())


def _shown(number: Number) -> str:
    if isinstance(number, Mapping):
        low, high = number["low"], number["high"]
        interval = "" if low is None or high is None else f" [{_digits(low)}, {_digits(high)}]"
        return _digits(number["mean"]) + interval
    return _digits(number)


def _digits(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
