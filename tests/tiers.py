"""Which tests run by default, and how many examples a fuzzer tries.

By default: what a change to the core can break. Everything else is slow, and runs in continuous integration: the tests
of the folders below, but for files and tests that are marked `core`, and those marked `slow` elsewhere.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

TESTS = Path(__file__).parent
SLOW_FOLDERS = (
    "docs",
    "environments",
    "experiments",
    "policies/gguf",
    "hostile",
    "integrations",
    "objectives/families",
    "scripts",
    "tunnel",
)
"""Studies, tasks, single families of objectives, bad input, whole commands, other people's formats."""

HOSTILE = "IPSRL_TEST_HOSTILE"
"""Set by `pytest --hostile`, which tries this many times as many examples, others each time."""
MANY = 40


def in_slow_folder(path: Path) -> bool:
    """Whether the tests of a file, or of all files of a folder, are slow unless they are marked `core`."""
    return any(path.is_relative_to(TESTS / folder) for folder in SLOW_FOLDERS)


def slow_after(count, cases):
    """The cases for `pytest.mark.parametrize`: all but the first `count` are slow tests."""
    marks = [[] if number < count else [pytest.mark.slow] for number in range(len(cases))]
    rows = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*row, marks=mark) for row, mark in zip(rows, marks, strict=True)]


def slow_unless(in_core, texts):
    """Texts for `pytest.mark.parametrize`: all but those in the core are slow tests."""
    return [text if text in in_core else pytest.param(text, marks=pytest.mark.slow) for text in texts]


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
