"""Two processes with four CPU devices each train as one process with eight, and survive the loss of either."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from ipsrl.distributed.mesh import make_mesh
from ipsrl.records import metric_log
from ipsrl.rollouts.randomness import stream
from ipsrl.training.storage.checkpoints import Checkpoints
from tests import fast_compilation
from tests.distributed import hosts_program
from tests.distributed.hosts_program import MESHES, POLICY, by_name, run, sampled
from tests.hangs import HANGS, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.eight_devices]

ROOT = Path(__file__).parents[2]
SEES_TESTS = os.environ | {
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    "XLA_FLAGS": fast_compilation.flags(),
}
STEPS = 12
# All that a process says that has lost the other.
LOST = re.compile(
    r"error: the computation over all processes has failed, most likely because one of them has ended or never "
    r"started; start the run again on all hosts and let it resume \(.+\)\n"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Pair:
    """Two processes that run the program, or a command, together; both are gone when the test is."""

    def __init__(self, folder: Path, *command: str, **arguments):
        folder.mkdir(exist_ok=True)
        port = free_port()
        self.logs, self.processes = [], []
        for process in range(2):
            told = json.dumps({**arguments, "process": process, "port": port})
            joined = [
                "--multihost",
                f"--coordinator=127.0.0.1:{port}",
                "--num_processes=2",
                f"--process_id={process}",
                "--host_devices=4",
            ]
            line = ["-m", *command, *joined] if command else [hosts_program.__file__, told]
            self.logs.append((folder / f"{process}.out", folder / f"{process}.err"))
            with self.logs[-1][0].open("w") as out, self.logs[-1][1].open("w") as err:
                started = subprocess.Popen(
                    [sys.executable, "-u", *line], cwd=ROOT, env=SEES_TESTS, stdout=out, stderr=err
                )
            self.processes.append(started)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for process in self.processes:
            process.kill()
            process.wait()

    def wait(self) -> list[int]:
        return [process.wait(timeout=HANGS) for process in self.processes]

    def said(self, process: int) -> str:
        """The text that a process wrote to stderr."""
        return self.logs[process][1].read_text()

    def printed(self, process: int) -> list[str]:
        """Lines of stdout, without those of the network library."""
        return [line for line in self.logs[process][0].read_text().splitlines() if "Gloo" not in line]

    def wait_until(self, happened) -> None:
        """While both processes run."""

        def has_happened():
            assert all(process.poll() is None for process in self.processes), (self.said(0), self.said(1))
            return happened()

        wait_until(has_happened)


def together(folder: Path, **arguments) -> Pair:
    """Runs the program to its end."""
    with Pair(folder, **arguments) as pair:
        assert pair.wait() == [0, 0], (pair.said(0), pair.said(1))
    return pair


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


def records(folder: Path) -> list[dict]:
    with contextlib.suppress(FileNotFoundError):
        return metric_log.read(folder / "metrics.jsonl")
    return []


def assert_same_records(ours, theirs, rtol=1e-4, atol=1e-5, exactly=()):
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.keys() == other.keys()
        for name in mine:
            np.testing.assert_allclose(other[name], mine[name], rtol, atol, err_msg=name)
        assert [other.get(name) for name in exactly] == [mine.get(name) for name in exactly]


def last_state(folder: Path, step: int, like) -> dict:
    """The leaves of the last checkpoint."""
    with Checkpoints(folder / "checkpoints", every=1) as checkpoints:
        found, state, _ = checkpoints.restore(like)
    assert found == step
    return by_name(state)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The folder and the final state of a run of this process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    return folder, run(folder, "data:8", STEPS, evaluate_every=4)


LONG = {"mesh": "data:8", "steps": 12, "checkpoint_every": 4, "optimizer": "adam"}
"""In its 11th step a process may be lost."""


@pytest.fixture(scope="module")
def pair(alone, tmp_path_factory):
    """The folder of three runs of two processes.

    In `run` is that of `alone`; in `undisturbed` one of `LONG`; in `continued` that of `alone` from its last checkpoint
    but one on another mesh, because the last is damaged.
    """
    folder = tmp_path_factory.mktemp("pair")
    shutil.copytree(alone[0], folder / "continued")
    data = max((folder / "continued" / "checkpoints" / "12").rglob("*"), key=lambda path: path.stat().st_size)
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    continued = {"mesh": "model:2,data:4", "steps": STEPS, "resume": True}
    whole = {"mesh": "data:8", "steps": STEPS, "evaluate_every": 4}
    first, *then = [
        {"out": str(folder / name), "save": str(folder / f"{name}-found")} | arguments
        for name, arguments in {"run": whole, "undisturbed": LONG, "continued": continued}.items()
    ]
    together(folder, meshes=MESHES, then=then, **first)
    return folder


def test_two_processes_train_as_one(alone, pair):
    """The same answers, exactly; the same numbers but for the order in which devices are summed."""
    ours, theirs = records(alone[0]), records(pair / "run")
    assert [record["step"] for record in theirs] == list(range(STEPS + 1))
    exactly = ("reward", "length", "group_distinct_outcomes", "unparsed", "evaluation/answers_0")
    assert_same_records(ours, theirs, 1e-5, 1e-6, exactly)
    for process in range(2):
        found = np.load(pair / f"run-found{process}.npz")
        for name, value in by_name(alone[1].parameters).items():
            np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-6)
    begun = POLICY.init(stream(hosts_program.SEED, 0, "parameters"))
    moved = max(np.abs(found[name] - start).max() for name, start in by_name(begun).items())
    assert moved > 1e-3


@pytest.mark.parametrize("mesh", MESHES)
def test_answers_are_the_same_and_each_is_verified_once(pair, mesh):
    expected, verified = sampled(make_mesh(mesh), POLICY.init(jax.random.key(0)))
    found = [np.load(pair / f"run-found{process}.npz") for process in range(2)]
    for one in found:
        np.testing.assert_array_equal(one[f"{mesh} tokens"], expected["tokens"])
        np.testing.assert_array_equal(one[f"{mesh} rewards"], expected["rewards"])
    shares = [one[f"{mesh} verified"].tolist() for one in found]
    assert sorted(shares[0] + shares[1]) == sorted(verified)
    assert len(shares[0]) == len(shares[1]) == 8


def test_only_the_first_process_writes_files(pair):
    # A checkout with changes is recorded, too.
    assert {path.name for path in (pair / "run").iterdir()} - {"uncommitted.diff"} == {
        "config.json",
        "environment.json",
        "metrics.jsonl",
        "warnings.jsonl",
        "checkpoints",
        ".lock",
    }
    (start,) = json.loads((pair / "run" / "environment.json").read_text())
    assert start["processes"] == 2
    assert len(start["devices"]) == 8
    assert sorted(path.name for path in (pair / "run" / "checkpoints").iterdir()) == ["10", "12"]
    assert all((pair / "run" / "checkpoints" / step / "seal.json").exists() for step in ("10", "12"))


def test_one_process_continues_what_two_began_on_another_mesh(alone, pair, tmp_path):
    shutil.copytree(pair / "run", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "12")
    state = run(tmp_path / "run", "data:2,model:4", STEPS, evaluate_every=4, resume=True)
    for name, value in by_name(alone[1].parameters).items():
        np.testing.assert_allclose(by_name(state.parameters)[name], value, rtol=0, atol=1e-6)
    starts = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert [start["processes"] for start in starts] == [2, 1]


def test_two_processes_continue_what_one_began_on_another_mesh(alone, pair):
    """The latest checkpoint is damaged: all hosts agree on the one before it."""
    said = [(pair / f"{process}.err").read_text() for process in range(2)]
    assert "The checkpoint of step 12 cannot be used" in said[0]
    assert "cannot be used" not in said[1]
    assert (pair / "continued" / "checkpoints" / "unusable-12").exists()
    for name, value in by_name(alone[1].parameters).items():
        np.testing.assert_allclose(np.load(pair / "continued-found1.npz")[name], value, rtol=0, atol=1e-6)


RUNS = {
    "wrapped": {
        "steps": 4,
        "checkpoint_every": 2,
        "filters": "best_answers(size=4, drawn=2), replayed_groups, replayed_answers, diversity_filter(bucket=8), "
        "off_policy(refine=second_attempt(critic=shuffled(own)), answers=2)",
    },
    "filtered": {
        "steps": 3,
        "filters": "dynamic_sampling(rounds=3), difficulty_filter(width=8, last_width=8, warm_up=1), "
        "off_policy(answers=2)",
    },
    "stored": {"steps": 3, "stored": True},
    "tools": {"steps": 2, "tools": True},
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Folders of these runs of two processes; the first one also in two parts, and only its second part."""
    folder, wrapped = tmp_path_factory.mktemp("sources"), RUNS["wrapped"]
    first_part, second_part = wrapped | {"steps": 2}, wrapped | {"resume": True}
    run(folder / "second", "data:8", **first_part)
    runs = [*RUNS.items(), ("both", first_part), ("both", second_part), ("second", second_part)]
    first, *then = [{"out": str(folder / name), "mesh": "data:8"} | arguments for name, arguments in runs]
    together(folder, then=then, **first)
    return folder


def assert_same_state(found, state):
    """Parameters and all that a source keeps."""
    expected = by_name(state)
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", RUNS)
def test_every_source_gives_two_processes_what_it_gives_one(name, sources, tmp_path):
    """Wrappers around wrappers, filters that all hosts must decide alike, a table that both verify, and a tool that the
    first calls for both.
    """
    state = run(tmp_path / "run", "data:8", **RUNS[name])
    assert_same_state(last_state(sources / name, RUNS[name]["steps"], state), state)
    assert_same_records(records(tmp_path / "run"), records(sources / name))
    assert records(sources / name)[-1]["gradient_norm"] > 0.1
    if name == "filtered":
        assert records(sources / name)[0].keys() >= {"sampling_rounds", "prompt_survival", "off_policy_reward"}


def test_any_number_of_processes_continues_what_wrappers_keep(sources, tmp_path):
    shutil.copytree(sources / "wrapped", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "4")
    state = run(tmp_path / "run", "data:8", resume=True, **RUNS["wrapped"])
    whole, both, second = (last_state(sources / name, 4, state) for name in ("wrapped", "both", "second"))
    assert_same_bits(both, whole)
    assert_same_state(second, state)
    assert_same_state(whole, state)
    (record,) = (record for record in records(sources / "both") if record["step"] == 3)
    assert record["replayed_groups"] > 0
    assert record["replayed_answers"] > 0
    assert record["best_answers"] > 0
    assert record["filtered_answers"] > 0


@pytest.mark.parametrize("lost", [0, 1])
def test_the_loss_of_a_process_ends_the_other_and_a_restart_ends_at_the_same_bits(pair, tmp_path, lost):
    out = tmp_path / "run"
    with Pair(tmp_path, out=str(out), lost=lost, **LONG) as losing:
        statuses = losing.wait()
        assert statuses[lost] == -signal.SIGKILL
        assert statuses[1 - lost] == os.EX_TEMPFAIL
        assert LOST.fullmatch(losing.said(1 - lost)), losing.said(1 - lost)
    assert 8 <= len(records(out)) < LONG["steps"]
    assert list((out / "checkpoints").glob("*/seal.json"))
    if lost == 0:
        return  # What a restart finds does not depend on who was lost.
    together(tmp_path, out=str(out), resume=True, save=str(tmp_path / "found"), **LONG)
    assert (out / "metrics.jsonl").read_bytes() == (pair / "undisturbed" / "metrics.jsonl").read_bytes()
    for process in range(2):
        found, expected = tmp_path / f"found{process}.npz", pair / f"undisturbed-found{process}.npz"
        assert_same_bits(dict(np.load(found)), dict(np.load(expected)))


def test_a_process_that_is_told_to_end_ends(tmp_path):
    with Pair(tmp_path, forever=str(tmp_path / "checkpoints")) as pair:
        pair.wait_until(lambda: pair.printed(0))
        pair.processes[1].terminate()
        assert pair.wait()[1] == -signal.SIGTERM


def test_a_process_killed_while_checkpoints_are_written_leaves_a_whole_one(tmp_path):
    """The first, which writes what all share."""
    like = {"spread": np.zeros((8, 100_000), np.float32), "whole": np.float32(0)}
    folder = tmp_path / "checkpoints"
    with Pair(tmp_path, forever=str(folder)) as pair:
        # When the third save begins, the second is complete.
        pair.wait_until(lambda: len(pair.printed(0)) >= 3)
        time.sleep(np.random.default_rng().uniform(0, 0.2))
        pair.processes[0].kill()
        assert pair.wait()[1] == os.EX_TEMPFAIL
        assert LOST.fullmatch(pair.said(1)), pair.said(1)
        last = int(pair.printed(0)[-1].split()[-1])
    with Checkpoints(folder, every=1) as checkpoints:
        step, state, _ = checkpoints.restore(like)
    assert step >= last - 1
    assert state["whole"] == step
    np.testing.assert_array_equal(state["spread"], step)


def test_a_refused_folder_ends_every_process_with_the_same_sentence(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    command = ["experiments.hypergrid", "--preset=smoke", f"--out={tmp_path / 'run'}"]
    with Pair(tmp_path, *command) as pair:
        assert pair.wait() == [1, 1]
        sentence = f"error: {tmp_path / 'run'} holds 'notes.txt' but no config.json"
        for process in range(2):
            assert pair.said(process).startswith(sentence)
            assert pair.said(process).count("\n") == 1
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"notes.txt"}


def test_numbers_that_are_not_finite_end_every_process_at_the_same_step(tmp_path):
    command = ["experiments.hypergrid", "--preset=smoke", "--objectives=grpo", "--seeds=0", "--learning_rate=1e38"]
    with Pair(tmp_path, *command, f"--out={tmp_path / 'run'}") as pair:
        assert pair.wait() == [1, 1]
        for process in range(2):
            last = pair.said(process).splitlines()[-1]
            assert re.match(r"error: step \d has .*parameter_norm inf; last good checkpoint: none", last), last
        assert pair.said(0).splitlines()[-1] == pair.said(1).splitlines()[-1]


def test_the_published_pair_runs(tmp_path):
    (shown,) = re.findall(
        r"```bash\n(for i in 0 1; do\n.*?)```", (ROOT / "docs" / "many_hosts.md").read_text(), re.DOTALL
    )
    short = "--preset=smoke --steps=1 --prior_steps=1 --objectives=grpo --seeds=0"
    for old, new in {"python": sys.executable, "OUT": str(tmp_path), "9876": str(free_port())}.items():
        assert shown.count(old) == 1
        shown = shown.replace(old, new)
    done = subprocess.run(
        ["bash", "-c", shown.replace("--preset=smoke", short)],
        cwd=ROOT,
        env=SEES_TESTS,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert json.loads((tmp_path / "summary.json").read_text())["complete"], done.stderr
    (start,) = json.loads((tmp_path / "environment.json").read_text())
    assert start["processes"] == 2
