"""Which cases of a test run by default."""

import pytest


def slow_after(count, cases):
    """The cases for `pytest.mark.parametrize`: all but the first `count` are slow tests."""
    marks = [[] if number < count else [pytest.mark.slow] for number in range(len(cases))]
    rows = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*row, marks=mark) for row, mark in zip(rows, marks, strict=True)]
