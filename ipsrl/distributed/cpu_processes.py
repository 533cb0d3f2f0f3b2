"""Other processes of this machine, which compute on its CPU."""

import atexit
import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import signal
import sys
from collections.abc import Generator
from multiprocessing import resource_tracker

from pebble import ProcessPool


@functools.cache
def cpu_processes(workers: int) -> ProcessPool:
    """The pool of so many processes, which end with this one.

    They share nothing with this process and its JAX threads ("spawn"), and import its main module, which takes seconds
    and a few hundred megabytes each. If they use JAX, it computes on the CPU: accelerators belong to this process.
    """
    pool = ProcessPool(workers, initializer=_without_accelerator, context=multiprocessing.get_context("spawn"))
    # The one that is registered last is called first.
    atexit.register(pool.join)
    atexit.register(pool.stop)
    with concurrent.futures.ThreadPoolExecutor(1) as starter:
        starter.submit(_start, pool).result()
    return pool


@contextlib.contextmanager
def not_interrupted() -> Generator[None]:
    """Processes and threads that this thread starts meanwhile do not hear Ctrl-C, which a terminal sends to all
    processes: this one ends them.

    Not for the main thread: another one would get the signal, and leave it where it waits.
    """
    # multiprocessing starts it with the first process, and lets signals through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(pool: ProcessPool) -> None:
    with not_interrupted():
        # To be asked starts its processes, and the thread that will replace them.
        bool(pool.active)


def _without_accelerator() -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_platforms", "cpu")
