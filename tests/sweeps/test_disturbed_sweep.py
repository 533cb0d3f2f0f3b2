"""Twelve runs whose workers, and whose sweep, are killed at random, beside the same in one undisturbed program."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from ipsrl.distributed.start_up import cores
from ipsrl.records.run_folder import is_complete
from tests.sweeps.started import started, wait_for

RUNS = 12
KILLS = 4
KILLS_BEFORE_THE_SWEEP = 2
# The cheapest runs there are: all have the same compiled program, and of one seed there is no figure.
GRID = f"--grid=objectives=reinforce;steps=20;record_every=10;seeds=0:{RUNS}"
LOCAL = f"local(workers={min(2, cores())})"


def start(out, launcher):
    return started(out, "--experiment=two_outcomes", "--preset=smoke", GRID, f"--launcher={launcher}")


def workers(out):
    """The processes whose output goes to a log of the sweep."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "fd" / "1").startswith(f"{out}/logs/"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def complete(out):
    return {path: path.stat().st_mtime_ns for path in out.glob("runs/*/summary.json")}


def kill_one(out, sweep, after, chance):
    """Kills a worker a moment after some number of runs is complete: slow machines do not have more kills to a run."""
    wait_for(lambda: len(complete(out)) >= after, sweep)
    time.sleep(chance.uniform(0, 1))
    there = []
    wait_for(lambda: there.extend(workers(out)) or there, sweep)
    os.kill(chance.choice(there), signal.SIGKILL)


def results(out):
    return {
        (path.name, name): (path / name).read_bytes()
        for path in (out / "runs").iterdir()
        for name in ("config.json", "metrics.jsonl", "summary.json")
    }


@pytest.mark.slow
def test_nothing_is_lost_done_twice_or_different(tmp_path):
    chance = random.Random(0)
    quiet, disturbed = tmp_path / "quiet", tmp_path / "disturbed"
    # Its runs are equal to separate ones to the last bit, and are made in seconds.
    with start(quiet, "vmap") as sweep:
        assert f"finished  {RUNS}" in sweep.communicate()[0]

    kills = sorted(chance.sample(range(RUNS - 5), KILLS))
    with start(disturbed, LOCAL) as sweep:
        for after in kills[:KILLS_BEFORE_THE_SWEEP]:
            kill_one(disturbed, sweep, after, chance)
        # It leaves a process at work behind.
        wait_for(lambda: workers(disturbed), sweep)
    done = complete(disturbed)
    assert 0 < len(done) < RUNS
    with start(disturbed, LOCAL) as sweep:
        for after in kills[KILLS_BEFORE_THE_SWEEP:]:
            kill_one(disturbed, sweep, after, chance)
        assert f"finished  {RUNS}" in sweep.communicate()[0]
    assert sweep.returncode == 0

    assert len(results(quiet)) == 3 * RUNS
    assert results(disturbed) == results(quiet)
    assert all(is_complete(path) for path in (disturbed / "runs").iterdir())
    assert all(path.stat().st_mtime_ns == when for path, when in done.items())
    # A run says this once, at its end; one that was killed on the way to it had already written its summary.
    ends = [log.read_text().count("\nfigure: ") for log in (disturbed / "logs").iterdir()]
    assert len(ends) == RUNS
    assert max(ends) == 1
    assert sum(ends) >= RUNS - KILLS
    assert not list((disturbed / "failures").iterdir())
