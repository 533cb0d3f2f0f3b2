"""Processes that begin with the libraries of an experiment imported, which is most of the work of a short run.

A server imports them once and forks for each run (multiprocessing's "forkserver"). It never computes: when it forks,
JAX has looked for no device and started no thread.
"""

import atexit
import multiprocessing
import os
import runpy
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from typing import IO

from ipsrl.study import catalog
from ipsrl.sweeps.attempt import ROOT, announce, wait

SERVER = multiprocessing.get_context("forkserver")
# What multiprocessing reports where the server was killed, and with it the knowledge of how a process has ended.
SERVER_LOST = 255
# Each start of a process asks for the ends of all others, which two threads must not do at once.
ONE_THREAD = threading.Lock()


def preload(experiments: Iterable[str]) -> None:
    """Says what the server is to import when the first process is started."""
    SERVER.set_forkserver_preload([catalog.module_name(experiment) for experiment in experiments])


def call_forked(command: Sequence[str], log: IO[str], ending: threading.Event, cores: set[int]) -> int:
    """What `ipsrl.sweeps.attempt.call` does for a command `python -m MODULE ...`, without starting a Python.

    Args:
      command, log, ending: as there.
      cores: those that the process may use; empty for all.
    """
    announce(command, log)
    with Connection(os.dup(log.fileno())) as output, ONE_THREAD:
        process = SERVER.Process(target=_run_module, args=(command[2:], output, cores))
        process.start()

    def poll() -> int | None:
        with ONE_THREAD:
            return process.exitcode

    status = wait(process.pid, poll, ending)
    return -signal.SIGKILL if status == SERVER_LOST else status


def _run_module(arguments: Sequence[str], output: Connection, cores: set[int]) -> None:
    """In the new process: what `python -m` does."""
    os.setsid()
    if cores:
        os.sched_setaffinity(0, cores)
    for standard in (sys.stdout, sys.stderr):
        os.dup2(output.fileno(), standard.fileno())
    os.chdir(ROOT)
    sys.argv = list(arguments)
    # What a run writes down as its command.
    sys.orig_argv = [sys.executable, "-m", *arguments]
    # It was imported for the sake of its imports. runpy warns where the module itself is there already.
    sys.modules.pop(arguments[0], None)
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    finally:
        # multiprocessing leaves out what is registered for the end of the interpreter.
        atexit._run_exitfuncs()
