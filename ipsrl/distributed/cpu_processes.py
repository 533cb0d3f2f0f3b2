"""Other processes of this machine, which compute on its CPU."""

import atexit
import functools
import multiprocessing
import os
import sys

from pebble import ProcessPool


@functools.cache
def cpu_processes(workers: int) -> ProcessPool:
    """The pool of so many processes, which end with this one.

    They share nothing with this process and its JAX threads ("spawn"), and import its main module, which takes seconds
    and a few hundred megabytes each. If they use JAX, it computes on the CPU: accelerators belong to this process.
    """
    pool = ProcessPool(workers, initializer=_without_accelerator, context=multiprocessing.get_context("spawn"))
    atexit.register(_end, pool)
    return pool


def _end(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()


def _without_accelerator() -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_platforms", "cpu")
