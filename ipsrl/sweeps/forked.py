"""Processes that start with the libraries of an experiment imported, which is most of the time of a short run.

A server imports them once and forks for each run (multiprocessing's "forkserver"). The server never computes: when it
forks, JAX has not looked for devices and has no threads.
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

from ipsrl.distributed.cpu_processes import not_interrupted
from ipsrl.study import catalog
from ipsrl.sweeps.attempt import ROOT, announce, wait

SERVER = multiprocessing.get_context("forkserver")
# Exit code that multiprocessing reports if the server was killed and the real one is unknown.
SERVER_LOST = 255
# Starting a process polls all others, which two threads must not do at once.
ONE_THREAD = threading.Lock()


def preload(experiments: Iterable[str]) -> None:
    """Sets the modules that the server imports when the first process is started."""
    SERVER.set_forkserver_preload([catalog.module_name(experiment) for experiment in experiments])


def call_forked(command: Sequence[str], log: IO[str], ending: threading.Event, cores: set[int]) -> int:
    """Like `ipsrl.sweeps.attempt.call` for a command `python -m MODULE ...`, without starting a new Python.

    The process uses these cores alone; all if there are none.
    """
    announce(command, log)
    with Connection(os.dup(log.fileno())) as output, ONE_THREAD, not_interrupted():
        process = SERVER.Process(target=run_module, args=(command[2:], output, cores))
        try:
            process.start()
        except (EOFError, ConnectionError):
            # The server was killed before it forked. The next process starts another server.
            return -signal.SIGKILL

    def poll() -> int | None:
        with ONE_THREAD:
            return process.exitcode

    assert process.pid is not None, "a process that has started has a number"
    status = wait(process.pid, poll, ending)
    return -signal.SIGKILL if status == SERVER_LOST else status


def run_module(arguments: Sequence[str], output: Connection, cores: set[int]) -> None:
    """Goes on, in a new process of `SERVER`, as `python -m` with these arguments, on cores as in `call_forked`."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if cores:
        os.sched_setaffinity(0, cores)
    for standard in (sys.stdout, sys.stderr):
        os.dup2(output.fileno(), standard.fileno())
    os.chdir(ROOT)
    sys.argv = list(arguments)
    # A run records this as its command.
    sys.orig_argv = [sys.executable, "-m", *arguments]
    # The server imported the module for its imports; runpy warns if the module itself is already imported.
    sys.modules.pop(arguments[0], None)
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    finally:
        # multiprocessing skips functions registered for the exit of the interpreter.
        atexit._run_exitfuncs()
