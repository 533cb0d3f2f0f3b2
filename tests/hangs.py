"""How long a test waits for what does not end: no test measures how fast something is."""

import time
from collections.abc import Callable

HANGS = 900
"""Seconds after which something counts as hanging, also on a machine that has a hundredth of its time for a test."""


def wait_until(happened: Callable[[], object]) -> None:
    """Returns when something has happened; fails if it never does."""
    late = time.monotonic() + HANGS
    while not happened():
        assert time.monotonic() < late, f"it has not happened in {HANGS} seconds"
        time.sleep(0.02)
