"""scripts/sweep.py as a user types it."""

import contextlib
import dataclasses
import io
import re
import sys
import threading
from pathlib import Path

import pytest

from experiments import two_outcomes
from ipsrl.command.definitions import Module
from ipsrl.sweeps import launcher_catalog, sweep_folder
from ipsrl.sweeps import sweep as sweep_file
from ipsrl.sweeps.attempt import attempt
from ipsrl.sweeps.launcher import Launcher
from ipsrl.sweeps.sweep_folder import SweepFolder
from ipsrl.sweeps.sweep_runs import make_run
from scripts import sweep
from tests.hangs import wait_until
from tests.sweeps.started import ROOT

GRID = ["--experiment=two_outcomes", "--preset=smoke", "--grid=seeds=[0:2],[1:3],[2:4]"]
HYPERGRID = ["--experiment=hypergrid", "--preset=smoke", "--grid=seeds=0,1"]


@dataclasses.dataclass(frozen=True)
class Pretended(Launcher):
    """Finishes each run when a path exists; one with a group size of 13 fails."""

    after: Path = ROOT

    def launch(self, folder, runs, restarts):
        for run in runs:
            fails = run.flags.get("group_size") == "13"
            program = "print('error: bad luck'); raise SystemExit(1)" if fails else FINISH
            command = [sys.executable, "-c", program, str(folder.run_path(run)), str(self.after)]
            yield run, attempt(folder, run, command, restarts, threading.Event())


FINISH = """
import pathlib, sys, time
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.05)
path = pathlib.Path(sys.argv[1])
path.mkdir()
(path / "summary.json").write_text('{"complete": true}')
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Call with arguments for exit status and what was printed to stdout and stderr."""
    monkeypatch.setitem(launcher_catalog.LAUNCHERS, "pretended", Pretended)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            sweep.main([f"--out={tmp_path / 'out'}", *arguments])
        printed = capsys.readouterr()
        # Python prints a message that a program exits with.
        message = f"{ended.value.code}\n" if isinstance(ended.value.code, str) else ""
        return (1 if message else ended.value.code), printed.out, printed.err + message

    run.out = tmp_path / "out"
    return run


def counts(text):
    return {line.split()[0]: int(line.split()[1]) for line in text.splitlines() if not line.startswith("failed:")}


def test_looking_writes_nothing(run):
    status, listed, _ = run(*GRID, "--list")
    assert status == 0
    first = listed.splitlines()[0].split()
    assert first[0].startswith("two_outcomes-seeds=0-2-steps=400-")
    assert first[1:] == ["--preset=smoke", "--seeds=0:2"]
    assert len(listed.splitlines()) == 3
    status, shown, _ = run(*GRID, "--status")
    assert counts(shown) == {"finished": 0, "running": 0, "failed": 0, "broken": 0, "waiting": 3}
    status, commands, _ = run(*GRID, "--dry_run")
    where, *commands = commands.splitlines()
    assert where == "# by Local(workers=0)"
    assert commands[0] == (
        f"{sys.executable} -m experiments.two_outcomes --preset=smoke --seeds=0:2 "
        f"--out={run.out}/runs/{first[0]} --resume"
    )
    assert not run.out.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--grid=seeds"], "cannot read 'seeds' in the grid"),
        (["--grid=zzz=1"], "two_outcomes has no flag 'zzz'; known: "),
        (["--grid=objectives=reinforce,grop;seeds=0:100"], "--objectives is 'grop', it must be one of reinforce"),
        (["--grid=seeds=0", "--preset=smok"], "unknown preset 'smok'"),
        (["--grid=seeds=0", "--launcher=locl"], "unknown launcher 'locl'"),
        (["--grid=seeds=0", "--tracker=x"], "unknown tracker 'x'"),
    ],
)
def test_a_wrong_grid_is_refused_before_the_imports(flags, message):
    arguments = [f"--out={ROOT / 'none'}", "--experiment=two_outcomes", *flags]
    with pytest.raises(ValueError, match=message) as early:
        Module("scripts.sweep").check(sweep.parser().parse_args(arguments))
    with pytest.raises(SystemExit) as late:
        sweep.main([*arguments, "--list"])
    assert late.value.code == f"error: {early.value}"


def test_a_sweep_is_worked_on_until_all_is_done_and_then_no_more(run):
    status, out, err = run(*GRID, "--launcher=pretended")
    assert (status, err) == (0, "")
    assert counts(out)["finished"] == 3
    written = {path: path.stat().st_mtime_ns for path in run.out.rglob("summary.json")}
    assert len(written) == 3
    wider = [*GRID[:2], "--grid=seeds=[0:2],[1:3],[2:4],[3:5]", "--launcher=pretended"]
    _, commands, _ = run(*wider, "--dry_run")
    assert len(commands.splitlines()) == 2
    assert run(*wider)[0] == 0
    assert all(path.stat().st_mtime_ns == when for path, when in written.items())
    # Without a grid it is about all runs that the folder has seen.
    assert len(run("--list")[1].splitlines()) == 4
    assert counts(run("--status")[1])["finished"] == 4


def test_failed_runs_are_reported_and_tried_again_on_request_only(run):
    grid = [*GRID[:2], "--grid=group_size=4,13", "--launcher=pretended"]
    status, out, _ = run(*grid)
    assert status == 1
    assert counts(out) == {"finished": 1, "running": 0, "failed": 1, "broken": 0, "waiting": 0}
    assert out.splitlines()[-1].startswith("failed: two_outcomes-group_size=13-")
    assert out.endswith(", exit status 1: error: bad luck\n")
    (log,) = run.out.glob("logs/*=13-*")
    for arguments, attempts in (([], 1), (["--retry"], 2)):
        assert run(*grid, *arguments)[0] == 1
        assert log.read_text().count("\nerror: bad luck") == attempts


def test_trackers_are_handed_on_and_change_no_identity(run):
    plain = run(*HYPERGRID, "--list")[1].split()
    tracker = "--tracker=tensorboard,wandb"
    assert run(*HYPERGRID, tracker, "--launcher=pretended")[0] == 0
    # The folder remembers them.
    with_tracker = run("--list")[1].split()
    assert [word for word in with_tracker if word != tracker] == plain
    assert with_tracker.count(tracker) == 2
    commands = run(*HYPERGRID[:2], "--grid=seeds=2", tracker, "--dry_run")[1]
    assert f" --seeds=2 {tracker} --out=" in commands


def test_the_clock_of_a_sweep_and_its_counts_go_on_while_runs_are_at_work(tmp_path, monkeypatch):
    terminal, seen = io.StringIO(), tmp_path / "seen"
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(sweep_file, "LOOK_SECONDS", 0.1)
    at_work = re.compile(r"0/1 runs \[(?!00:00)\d\d:\d\d<\?, running 1\]")

    def watch():
        with contextlib.suppress(AssertionError):
            wait_until(lambda: at_work.search(terminal.getvalue()))
        seen.touch()

    threading.Thread(target=watch).start()
    folder, one = SweepFolder.at(tmp_path / "out"), make_run("two_outcomes", "smoke")
    sweep_file.sweep(folder, [one], Pretended(after=seen), retry=False, restarts=0)
    lines = terminal.getvalue().split("\r")
    assert any(at_work.search(line) for line in lines)
    assert "1/1 runs" in lines[-1]
    assert "finished 1" in lines[-1]


def test_a_second_sweep_is_refused(run):
    with SweepFolder.at(run.out).hold([make_run("two_outcomes", "smoke")]):
        before = sorted(run.out.rglob("*"))
        status, _, err = run(*GRID)
        assert status == 1
        assert err.startswith(f"error: another sweep is working in {run.out}; wait until it ends")
        assert sorted(run.out.rglob("*")) == before
        assert run("--status")[0] == 0


def test_a_full_disk_ends_in_one_sentence(run, monkeypatch):
    run(*GRID, "--launcher=pretended")
    wider = [*GRID[:2], "--grid=seeds=[3:5],[4:6]", "--launcher=pretended"]
    name = run(*wider, "--list")[1].split()[0]

    def full(path, mode, **settings):
        return open("/dev/full" if path.name == f"{name}.log" else path, mode, **settings)

    with monkeypatch.context() as patched:
        patched.setattr(sweep_folder, "open_regular", full)
        status, _, err = run(*wider)
    assert status == 1
    assert err.startswith("error: [Errno 28] No space left on device")
    assert err.count("\n") == 1
    assert run(*wider)[0] == 0


def test_a_folder_of_other_presets_is_not_taken_up(run, monkeypatch):
    run(*GRID, "--launcher=pretended")
    smoke = dataclasses.replace(two_outcomes.PRESETS["smoke"], group_size=32)
    monkeypatch.setitem(two_outcomes.PRESETS, "smoke", smoke)
    assert counts(run("--status")[1])["finished"] == 3
    status, _, err = run("--launcher=pretended")
    assert status == 1
    assert "is another run since its presets have changed: request it again by --grid" in err
