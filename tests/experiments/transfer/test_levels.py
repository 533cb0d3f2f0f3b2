import numpy as np
import pytest

from experiments.transfer.levels import correlation, outcomes
from ipsrl.records.tidy import NotRecorded, Records


def rows_of(level, objective, rewards, values, seeds=(0, 1)):
    """The same curve for every seed, with outcomes that grow by 1 from seed to seed; without seeds a single one."""
    return [
        {"level": level, "objective": objective, "step": step, "reward": reward, "effective_outcomes": value + number}
        | ({} if seed is None else {"seed": seed})
        for number, seed in enumerate(seeds)
        for step, (reward, value) in enumerate(zip(rewards, values, strict=True))
    ]


def records_of(*rows):
    return Records([row for part in rows for row in part], ("level", "objective"))


def test_objectives_that_miss_the_bar_are_left_out():
    records = records_of(
        rows_of("a", "kept", (0.5, 1.0), (5.0, 3.0)),
        rows_of("a", "fell", (0.5, 1.0, 0.8), (5.0, 3.0, 2.0)),
        rows_of("a", "never", (0.5, 0.8), (5.0, 3.0)),
        rows_of("a", "diverged", (0.5, np.nan), (5.0, np.nan)),
        rows_of("a", "exact", (0.5, 1.0), (5.0, 3.0), seeds=(None,)),
    )
    at_the_bar, at_the_end = outcomes(records, "at the bar"), outcomes(records, "at the end")
    assert list(at_the_bar) == ["kept", "fell", "exact"]
    np.testing.assert_allclose(at_the_bar["kept"], [3.4, 4.4])
    assert np.ndim(at_the_bar["exact"]) == 0
    assert list(at_the_end) == ["kept", "exact"]
    np.testing.assert_allclose(at_the_end["kept"], [3.0, 4.0])


def test_levels_are_correlated_over_what_reaches_the_bar_on_both():
    small = [rows_of("a", f"o{n}", (0.5, 0.9), (5.0, n), seeds=(None,)) for n in range(5)]
    large = [rows_of("b", f"o{n}", (0.5, 0.9 if n else 0.6), (5.0, 2 * n)) for n in range(5)]
    found = correlation(records_of(*small, *large), "a", "b", "at the bar")
    assert (found.interval.mean, found.subjects) == (pytest.approx(1.0), 4)
    with pytest.raises(NotRecorded, match=r"3 objectives reach the reward 0.9 on both a and b, not 4"):
        correlation(records_of(*small[:4], *large), "a", "b", "at the bar")
    large += [rows_of("b", "o4", (0.5, 0.9), (5.0, 8.0), seeds=(2,))]
    with pytest.raises(ValueError, match="the objectives on b have between 2 and 3 seeds, not equally many"):
        correlation(records_of(*small, *large), "a", "b", "at the bar")
