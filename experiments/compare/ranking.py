"""Objectives in the order of the outcomes they leave, among those whose reward reaches a common bar."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from ipsrl.checking.arguments import checked
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import Records

PLACEBO = "placebo"
REWARD_SHARE = 0.9
"""The bar, as a share of the reward that reward-proportional probabilities earn."""
LEARNED = 0.1
"""The share of the way from the start's reward to the best possible one that counts as having learned."""
MEASURES = ("effective_outcomes", "reward")
"""The measures that are compared."""
_SAME = 0.005
"""Numbers that differ by less are the same in print."""


@dataclasses.dataclass(frozen=True)
class Result:
    """One objective.

    Attributes:
      name: its specification.
      rank: by outcomes at the end; None where the final reward is too low for them to be compared.
      records: of `effective_outcomes`, and of `reward` as a share of the best possible one; of nothing else.
    """

    name: str
    rank: int | None
    records: Records

    @property
    def label(self) -> str:
        return self.name if self.rank is None else f"{self.rank}. {self.name}"

    @property
    def reward(self) -> float:
        """The reward at the end, mean over seeds."""
        return self.records.mean("reward")

    @property
    def outcomes(self) -> float:
        """The effective outcomes at the end, mean over seeds."""
        return self.records.mean("effective_outcomes")

    def equals(self, other: "Result") -> bool:
        """Whether rank and measures are the same, in every seed at every measurement."""
        mine, theirs = (
            np.stack([result.records.curve(measure)[1] for measure in MEASURES])
            for result in (self, other)
        )
        same = self.rank == other.rank and mine.shape == theirs.shape
        return same and np.allclose(mine, theirs, rtol=0, atol=_SAME)


def ranked(records: Records) -> tuple[list[Result], float]:
    """Objectives with their ranks, those that did not reach the bar at the end, and the bar.

    An objective trained with several learning rates is ranked by the one that leaves most outcomes among those that
    reach the bar; if none does, it is listed with its highest reward. Runs that diverged are left out.

    Args:
      records: labelled `objective` and `learning_rate`; of `effective_outcomes`, `reward` as a share of the best
        possible one, and `proportional_reward`, that of reward-proportional probabilities.

    Raises:
      ValueError: no run stayed among the real numbers.
    """
    trained: dict[str, list[Result]] = {}
    for labels, rows in records.each("objective", "learning_rate"):
        if all(np.isfinite(rows.column(measure)).all() for measure in MEASURES):
            name = labels["objective"]
            trained.setdefault(name, []).append(Result(name, None, rows))
    if not trained:
        raise ValueError("every run diverged: take smaller learning rates")
    highest = {
        text: max(results, key=lambda result: result.reward) for text, results in trained.items()
    }
    best = max(result.reward for result in highest.values())
    of_any = next(iter(highest.values())).records
    start = of_any.curve("reward")[1][:, 0].mean()
    proportional = of_any.column("proportional_reward")[0]
    bar = float(max(REWARD_SHARE * proportional * best, start + LEARNED * (1 - start)))
    reaching = {text: [r for r in results if r.reward >= bar] for text, results in trained.items()}
    above = [
        max(results, key=lambda result: result.outcomes) for results in reaching.values() if results
    ]
    below = [highest[text] for text, results in reaching.items() if not results]
    for results in (above, below):
        # What differs by less stays in the order of the catalog.
        results.sort(key=lambda result: -round(result.outcomes, 3))
    ranks = shared_ranks([result.records.final("effective_outcomes") for result in above])
    above = [
        dataclasses.replace(result, rank=rank) for result, rank in zip(above, ranks, strict=True)
    ]
    return [*above, *below], bar


@checked
def shared_ranks(intervals: Sequence[Interval]) -> list[int]:
    """Ranks from 1, the highest mean first, shared where intervals overlap.

    From the top down, the first without a rank gets its position as its rank, and so do those that follow while their
    intervals overlap with its own or print the same. Overlap alone would be no ranking, because it is not transitive.
    An interval of one seed is its mean.

    Args:
      intervals: of numbers, in any order.

    Returns:
      the rank of each, in the order of `intervals`.
    """
    order = sorted(range(len(intervals)), key=lambda i: -intervals[i].mean)
    ranks = [0] * len(intervals)
    leader = None
    for place, i in enumerate(order, start=1):
        if leader is None or not _overlap(intervals[leader], intervals[i]):
            leader, rank = i, place
        ranks[i] = rank
    return ranks


def _overlap(above: Interval, below: Interval) -> bool:
    (low, _), (_, high) = _ends(above), _ends(below)
    return high >= low or str(above) == str(below)


def _ends(interval: Interval) -> tuple[float, float]:
    if math.isnan(interval.low):
        return float(interval.mean), float(interval.mean)
    return float(interval.low), float(interval.high)
