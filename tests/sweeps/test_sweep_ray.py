"""Launcher `ray` on a cluster of two nodes, all on this machine, one of which is lost in the middle."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ipsrl.records.metric_log import read
from ipsrl.sweeps import launcher_catalog
from ipsrl.sweeps.sweep_folder import SweepFolder
from tests.hangs import HANGS, wait_until
from tests.sweeps.started import ROOT, started, wait_for

STEPS = 600


@pytest.fixture(scope="module")
def cluster():
    """Two nodes that each have room for one run, and a head that has room for none."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": True, "dashboard_port": 0}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    # In one folder for both, a node would replace the submitted code while the other imports it.
    cluster.nodes = [cluster.add_node(num_cpus=1, runtime_env_dir_name=f"node_{node}") for node in range(2)]
    yield cluster
    cluster.shutdown()


def descendants(pid):
    """A process and all that it and they have started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found


@pytest.mark.slow
# Ray leaves sockets and processes to the end of the interpreter.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("_ctrl_c_works")
def test_an_interrupted_sweep_ends_its_processes_on_all_nodes(cluster, tmp_path):
    out = tmp_path / "out"
    grid = "seeds=[0:64],[1:65],[2:66];steps=2000000;record_every=1000"
    launcher = f"--launcher=ray(address='{cluster.address}')"
    with started(out, "--experiment=two_outcomes", "--preset=smoke", f"--grid={grid}", launcher) as process:
        wait_for(lambda: len(list(out.glob("runs/*/config.json"))) == 2, process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert errors == "interrupted: the same command continues the sweep\n"
    states = [SweepFolder.at(out).state(run) for run in SweepFolder.at(out).runs()]
    assert sorted(states) == ["broken", "broken", "waiting"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_sweep_can_be_handed_to_the_cluster(cluster, tmp_path):
    out = tmp_path / "out"
    entry = [sys.executable, "scripts/sweep.py", "--launcher=ray", "--experiment=two_outcomes", "--preset=smoke"]
    submit = [Path(sys.executable).with_name("ray"), "job", "submit", f"--address=http://{cluster.webui_url}"]
    command = [*submit, f"--working-dir={ROOT}", "--", *entry, "--grid=seeds=0,1", f"--out={out}"]
    tried = []

    def is_taken():
        tried.append(subprocess.run(command, capture_output=True, text=True, timeout=HANGS))
        # The cluster answers before the process has joined it that takes jobs.
        return "No available agent to submit job" not in tried[-1].stdout + tried[-1].stderr

    wait_until(is_taken)
    assert tried[-1].returncode == 0, tried[-1].stdout + tried[-1].stderr
    assert "finished  2\n" in tried[-1].stdout
    # What has run is the copy that the cluster was handed.
    starts = [start for path in out.glob("runs/*/environment.json") for start in json.loads(path.read_text())]
    assert [start["git_commit"] for start in starts] == [None, None]


@pytest.mark.slow
# Ray leaves sockets and processes to the end of the interpreter.
@pytest.mark.filterwarnings("ignore")
def test_a_run_whose_node_is_lost_goes_on_on_another(cluster, tmp_path):
    out = tmp_path / "out"
    grid = f"objectives=grpo;seeds=0:2;steps={STEPS};evaluate_every={STEPS};checkpoint_every=10"
    launcher = f"--launcher=ray(address='{cluster.address}')"
    with started(out, "--experiment=hypergrid", "--preset=smoke", f"--grid={grid}", launcher) as process:
        # Both are at work, each on a node, and have something to continue.
        wait_for(lambda: len({path.parents[4] for path in out.glob("runs/*/*/*/*/checkpoints/[1-9]*")}) == 2, process)
        lost = cluster.nodes[0]
        there = descendants(lost.all_processes["raylet"][0].process.pid)
        cluster.remove_node(lost, allow_graceful=False)
        # A machine takes all of its processes with it.
        for pid in there:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        printed, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 0, errors
    # Ray itself says on stdout that a node is gone.
    assert "finished  2\n" in printed
    starts = [len(json.loads(path.read_text())) for path in out.glob("runs/*/environment.json")]
    assert sorted(starts) == [1, 2]
    for log in out.glob("runs/*/*/*/*/metrics.jsonl"):
        assert [record["step"] for record in read(log)] == list(range(STEPS + 1))


@pytest.mark.slow
@pytest.mark.parametrize("address", ["ray://127.0.0.1:1", "head:port"])
def test_a_cluster_that_does_not_answer_is_one_sentence(address):
    sentence = f"^no Ray cluster answers at '{address}': start one, or give its address$"
    with pytest.raises(ValueError, match=sentence):
        list(launcher_catalog.make(f"ray(address='{address}')").launch(None, [], restarts=0))
