"""Runs as many runs at a time as there are places."""

import concurrent.futures
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from ipsrl.sweeps.sweep_folder import State
from ipsrl.sweeps.sweep_runs import SweepRun

Place = TypeVar("Place")


def work_at(
    places: Sequence[Place], runs: Sequence[SweepRun], work: Callable[[SweepRun, Place, threading.Event], State]
) -> Generator[tuple[SweepRun, State]]:
    """Starts the runs in this order, one at a time at each place; yields each with its final state when it has ended.

    `work` runs a run at a place, in its own thread, until the run has ended or the event is set; the event is set when
    the iterator is closed or a thread has raised an exception.
    """
    free = queue.SimpleQueue()
    for place in places:
        free.put(place)
    ending = threading.Event()

    def at_a_free_place(run: SweepRun) -> State:
        place = free.get()
        try:
            return work(run, place, ending)
        finally:
            free.put(place)

    pool = concurrent.futures.ThreadPoolExecutor(len(places))
    try:
        futures = {pool.submit(at_a_free_place, run): run for run in runs}
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result()
    finally:
        ending.set()
        pool.shutdown(cancel_futures=True)
