"""A forked process does what `python -m` would have done, on its share of the cores."""

import os
import sys
import threading
from multiprocessing import forkserver

import pytest

from ipsrl.sweeps.attempt import ROOT
from ipsrl.sweeps.forked import SERVER, call_forked, preload


@pytest.fixture
def call(tmp_path):
    """Call with a statement for the exit status, and what stands in the log below the command."""
    # Whatever imports what all studies do: a process that has to import it for itself takes seconds.
    preload(["two_outcomes"])

    def call(statement, ending=None):
        # A module of the standard library that runs what it is given.
        command = [sys.executable, "-m", "timeit", "--number=1", "--repeat=1", "--verbose", statement]
        core = {min(os.sched_getaffinity(0))}
        with (tmp_path / "log").open("w") as log:
            status = call_forked(command, log, ending or threading.Event(), core)
        return status, (tmp_path / "log").read_text().partition("\n")[2]

    return call


def test_where_and_how_a_forked_process_runs(call):
    asks = "import os, sys; print(os.getcwd(), os.sched_getaffinity(0), os.getsid(0) == os.getpid(), sys.argv[1])"
    status, said = call(f"{asks}; import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))")
    assert status == 0
    assert said.startswith(f"{ROOT} {{{min(os.sched_getaffinity(0))}}} True --number=1\nset()\n")


def test_what_is_registered_for_the_end_is_done(call):
    assert call("import atexit; atexit.register(print, 'goodbye')")[1].endswith("goodbye\n")


@pytest.mark.parametrize(
    ("statement", "status"), [("1 / 0", 1), ("import os; os._exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)]
)
def test_how_a_forked_process_has_ended(call, statement, status):
    assert call(statement)[0] == status


def test_a_forked_process_is_ended_with_its_sweep(call):
    ending = threading.Event()
    threading.Timer(1.5, ending.set).start()
    assert call("import time; time.sleep(60)", ending)[0] == -15


@pytest.mark.parametrize(("signal", "status"), [("SIGKILL", -9), ("SIGINT", 0)])
def test_a_server_that_is_killed_while_it_imports_kills_the_run_and_ctrl_c_does_not_reach_it(
    signal, status, call, tmp_path, monkeypatch
):
    (tmp_path / "gets_a_signal.py").write_text(f"import signal\nsignal.raise_signal(signal.{signal})\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    forkserver._forkserver._stop()
    SERVER.set_forkserver_preload(["gets_a_signal"])
    assert call("0")[0] == status
    forkserver._forkserver._stop()
    SERVER.set_forkserver_preload(["timeit"])
    assert call("0")[0] == 0
