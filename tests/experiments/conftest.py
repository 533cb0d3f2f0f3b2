"""The smoke runs of the studies: each is made once, by its published command, for all tests that read it."""

import fcntl
import functools
import os
import threading

import pytest

from ipsrl.records.run_folder import RunFolder
from ipsrl.study.recording import record
from ipsrl.sweeps.attempt import attempt, child_command
from ipsrl.sweeps.forked import call_forked, preload
from ipsrl.sweeps.sweep_folder import SweepFolder
from ipsrl.sweeps.sweep_runs import make_run


@pytest.fixture(scope="session")
def smokes(tmp_path_factory) -> SweepFolder:
    """The folder of one sweep, for all processes of these tests: each continues with what is missing in it."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    sweep = SweepFolder.at(shared / "smokes")
    with (shared / "smokes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not sweep.path.exists():
            with sweep.hold([]):
                pass
    return sweep


@pytest.fixture
def smoke_folder(smokes):
    """Study's module -> the folder of its smoke run, which is made here unless another process has made it.

    The run is a process of the sweep `smokes`, which waits for it as this waits for the sweep's.
    """

    def folder_of(module):
        run = make_run(module.__name__.rpartition(".")[2], "smoke")
        preload([run.experiment])
        forked = functools.partial(call_forked, cores=set())
        state = attempt(smokes, run, child_command(smokes, run), restarts=0, ending=threading.Event(), call=forked)
        assert state == "finished", smokes.log_path(run).read_text()
        return smokes.run_path(run)

    return folder_of


@pytest.fixture
def smoke(smoke_folder):
    """Module of a study without training runs -> settings and records of its smoke run."""

    def settings_and_records(module):
        settings = module.PRESETS["smoke"].resolved()
        folder = RunFolder(smoke_folder(module), {}, lock=None)
        return settings, record(list(module.curves(settings)), folder, None)

    return settings_and_records
