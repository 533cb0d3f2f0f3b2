"""Functions of many hosts cost a single process nothing; all hosts agree which of them verifies which rows."""

import subprocess
import sys
from typing import NamedTuple

import jax
import numpy as np
import pytest

from ipsrl.distributed import hosts
from ipsrl.distributed.mesh import make_mesh, replicate, shard_prompts
from ipsrl.rollouts.verification import verifier_of_rows

pytestmark = pytest.mark.eight_devices


def test_one_process_does_it_all_itself():
    assert hosts.is_first()
    assert hosts.first_does(lambda: [1, jax]) == [1, jax]
    assert hosts.broadcast({1: None}) == {1: None}
    assert hosts.all_hosts(True)
    assert not hosts.all_hosts(False)
    hosts.require_same("anything", "thing")
    with hosts.on_all_hosts():
        pass
    with pytest.raises(KeyError):
        hosts.first_does(lambda: {}["missing"])


class Ended(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize(
    ("processes", "message", "ends"),
    [
        (2, "FAILED_PRECONDITION: Connection closed by peer", True),
        (2, "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 80.0G", False),
        (1, "FAILED_PRECONDITION: anything", False),
    ],
)
def test_only_what_may_be_the_loss_of_a_host_says_that_a_restart_helps(monkeypatch, capsys, processes, message, ends):
    def exit_with(status):
        assert status == 75
        raise Ended

    monkeypatch.setattr(jax, "process_count", lambda: processes)
    monkeypatch.setattr(hosts.os, "_exit", exit_with)
    with pytest.raises(Ended if ends else jax.errors.JaxRuntimeError), hosts.on_all_hosts():
        raise jax.errors.JaxRuntimeError(message)
    said = capsys.readouterr().err
    assert said.endswith(f"start the run again on all hosts and let it resume ({message})\n") if ends else said == ""


def test_arrays_are_placed_and_fetched():
    mesh, values = make_mesh("data:4,model:2"), np.arange(24.0).reshape(8, 3)
    for place in (shard_prompts, replicate):
        placed = place({"of NumPy": values, "of JAX": jax.numpy.asarray(values)}, mesh)
        fetched = hosts.to_host(placed)
        for name in placed:
            assert len(placed[name].sharding.device_set) == 8
            assert isinstance(fetched[name], np.ndarray)
            np.testing.assert_array_equal(fetched[name], values)


class Device(NamedTuple):
    number: int
    process_index: int


class Layout(NamedTuple):
    """A layout of rows over devices, with the one method of a sharding that is used."""

    blocks: int
    processes: tuple[int, ...]

    def devices_indices_map(self, shape):
        size = shape[0] // self.blocks
        rows = [slice(i * size, (i + 1) * size) if self.blocks > 1 else slice(None) for i in range(self.blocks)]
        return {Device(i, process): (rows[i % self.blocks],) for i, process in enumerate(self.processes)}


@pytest.mark.parametrize(
    ("layout", "judges"),
    [
        # Each host holds its own rows, whichever order they come in.
        (Layout(4, (0, 0, 1, 1)), [0, 0, 0, 0, 1, 1, 1, 1]),
        (Layout(2, (1, 0, 1, 0)), [1, 1, 1, 1, 0, 0, 0, 0]),
        # Both hold all: they take turns.
        (Layout(1, (0, 0, 1, 1)), [0, 1, 0, 1, 0, 1, 0, 1]),
        # Four hosts, each block on two of them.
        (Layout(2, (0, 1, 2, 3)), [0, 2, 0, 2, 1, 3, 1, 3]),
        # More hosts than rows.
        (Layout(1, (0, 1, 2)), [0, 1]),
    ],
)
def test_every_row_is_judged_by_one_of_those_that_hold_it(layout, judges):
    assert verifier_of_rows(layout, len(judges)).tolist() == judges


JOIN = "from ipsrl.distributed.start_up import Cluster, start_up; start_up(cluster=Cluster('127.0.0.1:1', 2))"


def test_a_cluster_that_is_not_told_in_full_is_refused():
    done = subprocess.run([sys.executable, "-c", JOIN], capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ValueError: this process cannot join the others (")
    assert "process id of the current process must be defined" in last
    assert "give --coordinator, --num_processes and --process_id" in last


def test_an_error_that_is_one_of_its_own_causes_is_no_loss():
    refused, again = ValueError("os_error_code='28'"), OSError("No space left on device")
    refused.__context__, again.__cause__ = again, refused
    assert not hosts.may_be_a_loss(again)
