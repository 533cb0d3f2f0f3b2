"""Counts how many programs the host starts before it waits for all devices."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import jax

LIMIT = 32
"""XLA lets a CPU device fall so many programs behind; the thread that starts the next one then waits."""
START, UPDATE, WAIT = "[0] CommonPjRtLoadedExecutable::Execute (", "(jit_update)", " to_host"


def most_in_flight(train: Callable[[], object]) -> int:
    """The largest number of programs that a device gets between two waits for all devices, after the first update.

    What begins a run, such as the zeros of an optimiser, does not communicate, so no device can wait for another.

    Raises:
      ValueError: the profiler, which names programs and waits, shows fewer than two updates or none of the waits.
    """
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            train()
        [path] = Path(folder).rglob("*.xplane.pb")
        planes = jax.profiler.ProfileData.from_file(str(path)).planes
    events = sorted((event.start_ns, event.name) for plane in planes for line in plane.lines for event in line.events)
    updates, counts = 0, [0]
    for _, name in events:
        if name.startswith(START):
            updates += name.endswith(UPDATE)
            counts[-1] += updates > 0
        elif updates and name.startswith("$hosts.py") and name.endswith(WAIT):
            counts.append(0)
    if updates < 2 or len(counts) == 1:
        raise ValueError(f"the profile has {updates} updates and {len(counts) - 1} waits between programs")
    return max(counts)
