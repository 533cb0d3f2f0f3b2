"""Which cases of a test run by default, and how many examples a fuzzer tries."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

HOSTILE = "IPSRL_TEST_HOSTILE"
"""Set by `pytest --hostile`, which tries this many times as many examples, others each time."""
MANY = 40


def slow_after(count, cases):
    """The cases for `pytest.mark.parametrize`: all but the first `count` are slow tests."""
    marks = [[] if number < count else [pytest.mark.slow] for number in range(len(cases))]
    rows = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*row, marks=mark) for row, mark in zip(rows, marks, strict=True)]


def fuzzed(examples, shrinks=True):
    """Settings of a fuzzer: so many examples, always the same; by `pytest --hostile` many more, each time others.

    A failing example is reduced to a small one, unless `shrinks` is False, where trying one takes a second.
    """
    many = HOSTILE in os.environ
    return settings(
        max_examples=examples * (MANY if many else 1),
        derandomize=not many,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, *([Phase.shrink] if shrinks else [])],
    )
