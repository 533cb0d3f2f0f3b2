"""Outcomes that objectives leave at a level, and how well one level foretells another, at equal reward."""

from typing import Literal

import numpy as np

from experiments.transfer.rank_correlation import FEWEST, RankCorrelation, rank_correlation
from ipsrl.records.equal_reward import BAR, at_reward
from ipsrl.records.tidy import NotRecorded, Records

When = Literal["at the bar", "at the end"]
WHEN: tuple[When, ...] = ("at the bar", "at the end")
"""Where the reward first reaches the bar; or at the end, if the final reward is not below it."""


def outcomes(records: Records, when: When) -> dict[str, np.ndarray]:
    """Objective -> its effective outcomes, `[S]`, or a number without seeds; only of those that reach the bar.

    At the bar every seed must reach it; at the end, the mean reward must. Objectives that diverged are left out.

    Args:
      records: of one place, with `reward`, as a share of the best possible one, and `effective_outcomes`.
      when: the time of comparison.
    """
    found = {}
    for labels, rows in records.each("objective"):
        _, rewards = rows.curve("reward")
        _, values = rows.curve("effective_outcomes")
        if when == "at the bar":
            of_seeds = zip(rewards, values, strict=True)
            kept = np.array([at_reward(*of_seed) for of_seed in of_seeds])
        else:
            reached = rewards[:, -1].mean() >= BAR
            kept = np.where(reached, values[:, -1], np.nan)
        if np.isfinite(kept).all():
            seeded = "seed" in rows.rows[0]
            found[labels["objective"]] = kept if seeded else kept[0]
    return found


def in_both(records: Records, first: str, second: str, when: When) -> list[np.ndarray]:
    """Effective outcomes on two values of the label `level`, `[S, N]` each, or `[N]` without seeds.

    They are those of the N objectives that reach the bar on both.

    Raises:
      NotRecorded: these are fewer than four.
      ValueError: the objectives of a level do not have equally many seeds.
    """
    one, two = (outcomes(records.where(level=level), when) for level in (first, second))
    both = [name for name in one if name in two]
    if len(both) < FEWEST:
        raise NotRecorded(
            f"{len(both)} objectives reach the reward {BAR:g} on both {first} and {second}, not {FEWEST}"
        )

    stacked = []
    for level, of_level in ((first, one), (second, two)):
        seeds = {np.size(of_level[name]) for name in both}
        if len(seeds) > 1:
            raise ValueError(
                f"the objectives on {level} have between {min(seeds)} and {max(seeds)} seeds, not equally many"
            )
        stacked.append(np.stack([of_level[name] for name in both], axis=-1))
    return stacked


def correlation(records: Records, first: str, second: str, when: When) -> RankCorrelation:
    """The rank correlation of the means of `in_both`; raises like it."""
    return rank_correlation(*in_both(records, first, second, when))
