import os
import signal
import subprocess
import sys
import threading

import pytest

from ipsrl.sweeps import attempt as attempt_file
from ipsrl.sweeps.attempt import attempt
from ipsrl.sweeps.sweep_folder import SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun
from tests.hangs import HANGS, wait_until

RUN = SweepRun("two_outcomes", "smoke", {}, "run")
BEGIN = "import os, pathlib, signal, sys, time; path = pathlib.Path(sys.argv[1])\n"
FINISH = """
path.mkdir(exist_ok=True)
(path / "summary.json").write_text('{"complete": true}')
"""


@pytest.fixture
def folder(tmp_path):
    folder = SweepFolder.at(tmp_path / "sweep")
    with folder.hold([RUN]):
        yield folder


@pytest.fixture
def work(folder, tmp_path):
    """Call with a program, in which `path` is the folder of the run."""

    def work(program, restarts=0, ending=None):
        (tmp_path / "program.py").write_text(BEGIN + program)
        command = [sys.executable, str(tmp_path / "program.py"), str(folder.run_path(RUN))]
        return attempt(folder, RUN, command, restarts, ending or threading.Event())

    return work


def test_a_run_that_ends_well_is_finished_and_done_once(folder, work):
    assert work(f"print('hello'){FINISH}") == "finished"
    assert folder.log_path(RUN).read_text().splitlines()[-1] == "hello"
    assert work("print('again')") == "finished"
    assert "again" not in folder.log_path(RUN).read_text()


def test_a_run_that_ends_badly_has_failed_with_its_last_lines(folder, work):
    assert work("print('trained'); sys.exit('error: unknown objective')", restarts=5) == "failed"
    failure = folder.failure(RUN)
    assert failure["exit_status"] == 1
    assert failure["last_lines"][-2:] == ["trained", "error: unknown objective"]
    assert folder.log_path(RUN).read_text().count("trained") == 1
    assert work(FINISH) == "finished"
    assert folder.failure(RUN) is None


def test_a_run_that_ends_well_without_a_summary_has_failed(folder, work):
    assert work("print('nothing to do')") == "failed"
    assert folder.failure(RUN)["exit_status"] == 0


@pytest.mark.parametrize(("restarts", "state"), [(1, "failed"), (2, "finished")])
def test_a_process_that_is_killed_is_started_again(folder, work, restarts, state):
    killed_twice = "print('begun', flush=True)\nif open(LOG).read().count('begun') < 3: os.kill(os.getpid(), 9)"
    assert work(killed_twice.replace("LOG", repr(str(folder.log_path(RUN)))) + FINISH, restarts) == state
    if state == "failed":
        assert folder.failure(RUN)["exit_status"] == -signal.SIGKILL


def test_a_process_killed_after_its_summary_has_finished(work):
    assert work(f"{FINISH}os.kill(os.getpid(), signal.SIGKILL)") == "finished"


def ending_after(folder, lines):
    """An event that is set when the run has printed so many lines below its command."""
    ending, log = threading.Event(), folder.log_path(RUN)

    def watch():
        wait_until(lambda: log.exists() and log.read_text().count("\n") == 1 + lines)
        ending.set()

    threading.Thread(target=watch, daemon=True).start()
    return ending


def test_an_ended_sweep_leaves_a_broken_run_and_no_process(folder, work):
    # It has a child of its own.
    program = f"os.fork(); print(os.getpid(), flush=True); time.sleep({2 * HANGS})"
    assert work(program, 3, ending_after(folder, 2)) == "broken"
    pids = [int(line) for line in folder.log_path(RUN).read_text().splitlines() if line.isdigit()]
    assert len(pids) == 2
    wait_until(lambda: not any(alive(pid) for pid in pids))
    assert folder.state(RUN) == "broken"
    assert folder.failure(RUN) is None


def test_a_process_that_does_not_hear_is_killed(folder, work, monkeypatch):
    monkeypatch.setattr(attempt_file, "SECONDS_TO_END", 0.3)
    program = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep({2 * HANGS})"
    assert work(program, 0, ending_after(folder, 1)) == folder.state(RUN) == "broken"


def test_what_a_killed_sweep_has_left_behind_is_waited_for(folder, work):
    program = f"{BEGIN}time.sleep(0.5){FINISH}"
    with folder.claim(RUN, threading.Event()) as log:
        orphan = subprocess.Popen([sys.executable, "-c", program, str(folder.run_path(RUN))], stdout=log, stderr=log)
    assert work("print('a second time')") == "finished"
    assert orphan.wait() == 0
    assert "a second time" not in folder.log_path(RUN).read_text()


def alive(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
