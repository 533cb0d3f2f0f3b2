"""Problems of text tasks, drawn from a seed until there are enough different ones."""

from collections.abc import Iterable
from typing import TypeVar

from ipsrl.slow_tasks import report_if_slow

MOST_DRAWS = 50_000
"""The draws in a row without a new problem, after which there are taken to be no more."""

Problem, Right = TypeVar("Problem"), TypeVar("Right")


def drawn_problems(
    draws: Iterable[tuple[Problem, Right] | None], wanted: int, what: str, choose: str, skip: int = 0
) -> dict[Problem, Right]:
    """A problem table of the first different problems of a series of draws.

    Args:
      draws: for each draw a problem and its right answers, or None if it made no problem that is wanted.
      wanted: number of problems.
      what: names them in messages, in the plural.
      choose: what to change where there are too few.
      skip: how many more are found first, and left out.

    Raises:
      ValueError: the draws have ended, or `MOST_DRAWS` in a row have made no new problem.
    """
    found: dict[Problem, Right] = {}
    number = last = 0
    with report_if_slow(lambda: f"{len(found)} of {skip + wanted} {what} are made"):
        for number, drawn in enumerate(draws, start=1):
            if drawn is not None and drawn[0] not in found:
                found[drawn[0]], last = drawn[1], number
            if len(found) == skip + wanted:
                return dict(list(found.items())[skip:])
            if number - last == MOST_DRAWS:
                break
    raise ValueError(f"only {len(found)} of {skip + wanted} {what} were found in {number} draws: choose {choose}")
