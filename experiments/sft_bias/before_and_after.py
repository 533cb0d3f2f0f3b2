"""Starts of reinforcement learning, some supervised longer than others: what stands before it, and what it leaves.

Curves have the labels `arm` and `epochs`, those of supervised training; the arm `taught` has several numbers of epochs.
"""

import numpy as np

from ipsrl.measures.rank_correlation import rank_correlations
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import NotRecorded, Records, interval_of
from ipsrl.study.numbers import Number, difference

FEWEST = "the fewest"


def correlation(before: str, after: str) -> Number:
    """Spearman's, over epochs, of a measure before with one after: the mean over seeds."""
    return lambda records: interval_of(_correlations(records, before, after))


def stronger(before: str, other: str, after: str) -> Number:
    """By how much the size of one measure's correlation is above that of another one's, paired by seed."""
    return lambda records: interval_of(
        abs(_correlations(records, before, after)) - abs(_correlations(records, other, after))
    )


def less(name: str, arm: str = "taught", than: str = FEWEST) -> Number:
    """How much less of a measure is left after the most epochs in an arm than in another one, paired by seed.

    Args:
      than: an arm after the most epochs, or FEWEST, the taught one after the fewest.
    """

    def number(records: Records) -> Interval:
        epochs = _epochs(records)
        other = (
            {"arm": "taught", "epochs": min(epochs)}
            if than == FEWEST
            else {"arm": than, "epochs": max(epochs)}
        )
        return difference(name, other, {"arm": arm, "epochs": max(epochs)})(records)

    return number


def _correlations(records: Records, before: str, after: str) -> np.ndarray:
    taught = [records.where(arm="taught", epochs=epochs) for epochs in _epochs(records)]
    first, last = (
        [rows.curve(before)[1][:, 0] for rows in taught],
        [rows.ends(after) for rows in taught],
    )
    return rank_correlations(np.transpose(first), np.transpose(last))


def _epochs(records: Records) -> list[int]:
    found = records.where(arm="taught").distinct("epochs")
    if len(found) < 2:
        raise NotRecorded("there are no two numbers of epochs to compare")
    return found
