import json
import sys
from pathlib import Path

import pytest

import benchmark
from benchmarks import grpo_peers, language_model, measuring, peer_environments
from benchmarks.contender import Contender
from benchmarks.workloads import Batch
from ipsrl.distributed.start_up import cache_folder
from scripts.make_checkpoint import make_checkpoint

SCRIPTS = Path(__file__).parents[2] / "scripts"
CACHE = cache_folder()
"""The user's cache, as in `test_peers`."""
BATCH = Batch(vocabulary_size=512, prompts=2, group_size=4, prompt_length=6, completion_length=3, learning_rate=1e-3)
STARTED = """
import os, pathlib, sys
from benchmarks.contender import serve
dtype = sys.argv[-1].removeprefix("--dtype=")
cache = pathlib.Path(os.environ["IPSRL_CACHE"])
cold = not cache.exists()
cache.mkdir(exist_ok=True)
assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(cache)
seconds = {"float32": 4.0, "bfloat16": 2.0}[dtype] * float(sys.argv[1])
report = {"seconds": seconds, "cpu_seconds": 3.0, "reward": 0.5, "tokens": 10, "sampling": 0.5, "sampling_cpu": 0.25}
described = {"name": dtype, "parameters": 1, "tokens_per_step": 10, "versions": {}, "settings": {"cold": cold}}
serve(described, lambda: report)
"""


def programs(**times):
    return {
        name: Contender(name, [sys.executable, "-c", STARTED, time], {"PYTHONPATH": str(SCRIPTS)})
        for name, time in times.items()
    }


def test_each_is_started_without_and_with_compiled_programs_and_measured_in_its_faster_type():
    ours, theirs = language_model.compare(programs(ours="1", theirs="3"), [], ["float32", "bfloat16"], runs=5)
    assert ours.tried == {"float32": 4.0, "bfloat16": 2.0}
    assert (ours.description["name"], ours.description["settings"]) == ("bfloat16", {"cold": False})
    assert (ours.ratio, theirs.ratio) == (1.0, 3.0)
    assert (ours.cpu_seconds, ours.tokens_per_second, ours.tokens_per_cpu_second) == (3.0, 20.0, 40.0)
    assert ours.cold > 0 < ours.first_step
    lines = language_model.table([ours, theirs])
    assert lines[2].split()[:5] == ["theirs", "6.000", "(6.000", "to", "6.000)"]
    assert lines[3].endswith("cold=False; fastest steps: float32 4.000 s, bfloat16 2.000 s")


@pytest.mark.slow
def test_a_checkpoint_is_trained_by_all_that_are_installed(tmp_path, monkeypatch):
    folder = make_checkpoint(tmp_path / "model", "llama", hidden_size=16, num_layers=1)
    file = tmp_path / "measured.json"
    monkeypatch.setenv("IPSRL_CACHE", str(CACHE))
    monkeypatch.setattr(measuring, "FEWEST_RUNS", 1)
    monkeypatch.setattr(grpo_peers, "FAR", 0.5)
    monkeypatch.setitem(
        language_model.SIZES, "trial", {"prompts": 2, "group_size": 4, "prompt_length": 6, "completion_length": 3}
    )
    contenders = ["ipsrl", "trl"] if peer_environments.is_made("trl") else ["ipsrl"]
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "ipsrl").symlink_to(SCRIPTS.parent / "ipsrl")
    flags = ("--sizes=trial", "--dtypes=float32", f"--model_dir={folder}", f"--against={tmp_path / 'older'}")
    flags += (f"--contenders={','.join(contenders)}", "--runs=1", f"--json={file}")
    benchmark.main(["language_model", *flags])
    rows = json.loads(file.read_text())["language_model"]["trial"]
    assert [row["name"] for row in rows] == ["ipsrl", "older", *contenders[1:]]
    assert rows[0]["description"]["package"] == str(SCRIPTS.parent / "ipsrl")
    assert rows[1]["description"]["package"] == str(tmp_path / "older" / "ipsrl")
    for row in rows:
        assert row["description"]["tokens_per_step"] == 24
        assert row["tokens_per_second"] > 0 < row["tokens_per_cpu_second"]
        assert row["description"]["parameters"] == rows[0]["description"]["parameters"]
