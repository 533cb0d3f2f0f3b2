"""Comparisons with other trainers: their rewards, and the objective with these trainers' standard deviation."""

import dataclasses
import gc

import pytest

from ipsrl import objectives


@pytest.fixture(scope="module", autouse=True)
def imports_are_no_garbage():
    """Trainers look for garbage whenever they begin: not among the million objects that imports have made."""
    gc.freeze()
    yield
    gc.unfreeze()


def even(prompts, completions, **_):
    """The number of even words."""
    return [float(sum(int(word) % 2 == 0 for word in text.split())) for text in completions]


def even_and_large(prompts, completions, **_):
    """Beside rewards of this size the epsilon of a trainer is nothing. A power of two changes no other digit."""
    return [1024 * reward for reward in even(prompts, completions)]


def standardises(objective):
    """Whether rewards are divided by a standard deviation, to which trainers add their epsilon."""
    return hasattr(objective.advantages, "unbiased")


def made(text):
    """The objective, with the standard deviation of TRL, verl and Tunix where it has one: that of G - 1."""
    objective = objectives.make(text)
    if not standardises(objective):
        return objective
    return dataclasses.replace(objective, advantages=dataclasses.replace(objective.advantages, unbiased=True))


def one_of_each_kind(names, reads=lambda objective: objective.needs):
    """One row of the catalog for each loss and what it reads: another trainer sees no other difference."""
    found = {}
    for name in names:
        made = objectives.make(name)
        parts = (made.surrogate, made.aggregation, *made.penalties)
        found.setdefault((frozenset(reads(made)), *map(type, parts)), name)
    return list(found.values())
