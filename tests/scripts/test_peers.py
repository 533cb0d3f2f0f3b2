import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import benchmark
from benchmarks import grpo_peers, measuring, peer_environments
from benchmarks.contender import Contender
from benchmarks.peers import grpo_task
from benchmarks.workloads import WORKLOADS, reward
from ipsrl.distributed.start_up import cache_folder

SCRIPTS = Path(__file__).parents[2] / "scripts"
CACHE = cache_folder()
"""The user's cache, where peers may be installed; tests have a cache of their own, which is empty."""

COUNTS = """
import sys
from benchmarks.contender import serve
step = 0
def count():
    global step
    step += 1
    print("what libraries print is no answer")
    if step > int(sys.argv[1]):
        sys.exit(3)
    return {"step": step, "reward": 0.5 + step / 100, "tokens": 10}
serve({"name": "counter", "parameters": 1000, "tokens_per_step": 10, "versions": {}, "settings": {}}, count)
"""

GATED = """
from benchmarks.peers.gate import Gate
gate = Gate()
gate.open({"name": "gated"})
gate.wait()
for step in range(10**6):
    gate.wait({"step": step})
"""


def contender(program, *arguments):
    return Contender("counter", [sys.executable, "-c", program, *arguments], {"PYTHONPATH": str(SCRIPTS)})


def test_a_contender_describes_itself_and_does_a_step_when_it_is_told():
    with contender(COUNTS, "9") as counter:
        assert counter.description["name"] == "counter"
        # The first step is done already.
        assert [counter.step()["step"] for _ in range(3)] == [2, 3, 4]
        assert counter.step()["seconds"] >= 0
        assert counter.first_step > 0
    assert counter._process.returncode == 0


@pytest.mark.parametrize("steps", [0, 1])
def test_a_contender_that_ends_is_said_in_one_sentence(steps, capfd):
    with pytest.raises(ValueError, match="counter has ended with status 3"), contender(COUNTS, str(steps)) as counter:
        counter.step()
    # What it printed is there to read.
    assert "no answer" in capfd.readouterr().err


def test_a_contender_that_ends_between_steps_is_said_as_well():
    with contender("print({}, flush=True); input(); print({}, flush=True); raise SystemExit(4)") as brief:
        brief._process.wait()
        with pytest.raises(ValueError, match="counter has ended with status 4"):
            brief.step()


def test_a_trainer_at_a_gate_does_one_step_at_a_time_and_ends_with_the_questions():
    with contender(GATED) as gated:
        assert gated.description == {"name": "gated"}
        assert [gated.step()["step"] for _ in range(3)] == [1, 2, 3]
    assert gated._process.returncode == 0


def test_a_trainer_at_a_gate_that_fails_ends():
    fails = GATED.replace("gate.wait({", "step == 1 and 1 / 0; gate.wait({")
    with pytest.raises(ValueError, match="has ended with status 1"), contender(fails) as gated:
        gated.step()


def test_measured_contenders_take_turns(tmp_path):
    with contender(COUNTS, "99") as counter:
        [steps] = grpo_peers.measure([counter], runs=5)
    # One step at the start and one to warm up.
    assert len(steps.times) == 5
    assert steps.ratio == 1.0
    assert steps.reward == pytest.approx(0.5 + np.mean([2, 3, 4, 5, 6, 7]) / 100)
    assert steps.seconds.shortest <= steps.seconds.median <= steps.seconds.longest
    if os.path.exists("/proc/self/status"):
        assert steps.peak_memory > 1


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_everyone_has_every_place_equally_often(number):
    names = list(range(number))
    rounds = [grpo_peers.in_turn(names, turn) for turn in range(2 * number)]
    assert all(sorted(order) == names for order in rounds)
    for place in range(number):
        assert sorted(order[place] for order in rounds) == sorted(2 * names)


def test_the_ratio_is_that_of_the_same_round():
    # Everything is four times as slow in the second round: a ratio of medians would be 3.
    assert grpo_peers.ratio([2.0, 12.0, 3.0], [1.0, 4.0, 1.0]) == 3.0
    assert grpo_peers.ratio([2.0, 8.0, 6.0], [1.0, 4.0, 1.0]) == 2.0


def test_the_table_says_what_was_measured():
    def steps(name, times, reference, memory):
        described = {"name": name, "versions": {"jax": "0.10"}, "settings": {"dtype": "float32"}}
        spread = grpo_peers.measuring.Spread.of(times)
        ratio = grpo_peers.ratio(times, reference)
        return grpo_peers.Steps(name, spread, ratio, 12.34, memory, 0.5012, described, times)

    ours = [0.5, 1.0, 2.0]
    _, first, second, *described = grpo_peers.table(
        [steps("ipsrl", ours, ours, 512.4), steps("trl", [1.0, 4.0, 3.0], ours, None)]
    )
    assert first.split() == ["ipsrl", "1.000", "(0.500", "to", "2.000)", "1.00", "12.3", "512", "0.501"]
    assert second.split() == ["trl", "3.000", "(1.000", "to", "4.000)", "2.00", "12.3", "?", "0.501"]
    assert described == ["ipsrl    jax 0.10; dtype=float32", "trl      jax 0.10; dtype=float32"]


@pytest.mark.parametrize(("key", "value"), [("tokens_per_step", 200), ("parameters", 1020)])
def test_contenders_that_do_other_work_are_refused(key, value):
    ours = {"name": "ours", "tokens_per_step": 100, "parameters": 1000}
    grpo_peers.check_same_work([ours, ours | {"parameters": 1005}])
    with pytest.raises(ValueError, match=str(value)):
        grpo_peers.check_same_work([ours, ours | {"name": "theirs", key: value}])


def test_contenders_that_get_other_rewards_are_refused():
    grpo_peers.check_rewards({"ours": 0.48, "theirs": 0.55})
    with pytest.raises(ValueError, match=r"theirs has a mean reward of 0\.250"):
        grpo_peers.check_rewards({"ours": 0.5, "theirs": 0.25})


def test_rewards_are_refused_for_answers_of_another_length():
    workload = WORKLOADS["S"]
    rewards = grpo_task.Rewards(workload)
    answers = np.random.default_rng(0).integers(0, 64, (128, 32)).tolist()
    given = rewards(answers)
    assert given == [reward(answer) for answer in answers]
    assert rewards.report == {"reward": pytest.approx(np.mean(given)), "tokens": 4096}
    with pytest.raises(ValueError, match=r"\[31, 32\] tokens"):
        rewards([answers[0][1:], *answers[1:]])
    with pytest.raises(ValueError, match="samples 127 answers"):
        rewards(answers[1:])


def test_flags_replace_the_best_settings(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["peer", "--workload=S", "--dtype=bfloat16", "--threads=3"])
    best = {"S": {"dtype": "float32", "cache": "static"}}
    workload, settings = grpo_task.settings("A peer.", {"dtype": ("float32", "bfloat16")}, ("threads",), best)
    assert workload == WORKLOADS["S"]
    assert settings == {"dtype": "bfloat16", "cache": "static", "threads": 3}
    monkeypatch.setattr(sys, "argv", ["peer", "--workload=XL"])
    with pytest.raises(SystemExit):
        grpo_task.settings("A peer.", {}, (), best)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("IPSRL_CACHE", str(tmp_path))
    # No index is asked: what cannot be found at once is not there.
    for name, value in (("PIP_NO_INDEX", "1"), ("UV_OFFLINE", "1"), ("PIP_RETRIES", "0")):
        monkeypatch.setenv(name, value)
    return tmp_path / "peers"


@pytest.mark.slow
def test_an_environment_is_made_once(cache, monkeypatch, capsys):
    monkeypatch.setitem(peer_environments.REQUIREMENTS, "empty", ())
    monkeypatch.setattr(peer_environments, "_packages", lambda *_: None)
    assert not peer_environments.is_made("empty")
    python = peer_environments.python("empty")
    assert python == cache / "empty" / "bin" / "python"
    assert os.access(python, os.X_OK)
    assert peer_environments.is_made("empty")
    capsys.readouterr()
    assert peer_environments.python("empty") == python
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(peer_environments.REQUIREMENTS, "empty", ("numpy",))
    assert not peer_environments.is_made("empty")


@pytest.mark.slow
def test_a_failed_installation_leaves_nothing(cache, monkeypatch):
    monkeypatch.setitem(peer_environments.REQUIREMENTS, "missing", ("this-is-not-there==1.2.3",))
    with pytest.raises(ValueError, match=r"missing cannot be installed; is the network reachable\?.*not-there"):
        peer_environments.python("missing")
    assert not peer_environments.is_made("missing")
    assert list(cache.iterdir()) == []


def test_an_unknown_environment_is_refused():
    with pytest.raises(ValueError, match="unknown environment 'slime'; known: trl, "):
        peer_environments.python("slime")


@pytest.mark.slow
def test_we_and_the_peers_that_are_installed_do_the_same_work(tmp_path, monkeypatch):
    monkeypatch.setenv("IPSRL_CACHE", str(CACHE))
    peers = [peer for peer in grpo_peers.MODULES if peer_environments.is_made(peer)]
    if not peers:
        pytest.skip("no peer is installed: `python scripts/benchmark.py peers` does it")
    file = tmp_path / "peers.json"
    monkeypatch.setattr(measuring, "FEWEST_RUNS", 1)
    benchmark.main(["peers", "--workloads=S", f"--peers={','.join(peers)}", "--runs=1", f"--json={file}"])
    steps = json.loads(file.read_text())["steps"]["S"]
    assert [row["name"] for row in steps] == ["ipsrl", *peers]
    for row in steps:
        assert row["description"]["parameters"] == WORKLOADS["S"].parameters
        assert row["description"]["tokens_per_step"] == 4096
        # The mean of two steps, which hardly learn.
        assert row["reward"] == pytest.approx(0.55, abs=0.1)
