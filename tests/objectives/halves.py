"""The two halves of an objective, each with one fixed other half: rows that share a half share its compiled program."""

import dataclasses

from ipsrl.objectives import make
from ipsrl.objectives.advantages import GroupMean
from ipsrl.objectives.aggregation import SequenceMean
from ipsrl.objectives.surrogates import PolicyGradient


def weighing(objective):
    """The objective but for what `weigh` does not read."""
    return dataclasses.replace(
        objective, surrogate=PolicyGradient(), aggregation=SequenceMean(), first=None, correction=None
    )


def smallest_group(text):
    return max(part.smallest_group for part in make(text).parts)


def losing(objective):
    """The objective but for what `loss` does not read."""
    return dataclasses.replace(objective, reward_shaping=(), advantages=GroupMean(), reweighting=())
