"""Starts of reinforcement learning, some supervised longer than others: do ranks before tell those after?

Curves have the labels `arm` and `epochs`, those of supervised training; the arm `taught` has several numbers of epochs.
"""

import numpy as np

from ipsrl.measures.rank_correlation import rank_correlations
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.study.numbers import Computed, Number


def correlation(before: str, after: str) -> Number:
    """Spearman's, over epochs, of a measure before with one after."""
    words = f"rank correlation of {before} before with {after} after"
    return Computed(words, lambda records: _correlations(records, before, after))


def strength(before: str, after: str) -> Number:
    """The size of a `correlation`."""
    words = f"size of the rank correlation of {before} before with {after} after"
    return Computed(words, lambda records: abs(_correlations(records, before, after)))


def _correlations(records: Records, before: str, after: str) -> np.ndarray:
    of_all = records.where(arm="taught")
    taught = [rows for _, rows in of_all.each("epochs")]
    if len(taught) < 2:
        raise NotRecorded("there are no two numbers of epochs to compare")
    first = [rows.curve(before)[1][:, 0] for rows in taught]
    last = [rows.ends(after) for rows in taught]
    return rank_correlations(np.transpose(first), np.transpose(last))
