import json
import math

import pytest

import benchmark
from benchmarks import sweeps
from ipsrl.records.json_files import write_json
from ipsrl.records.metric_log import MetricLog


def leave(folder, seed, value, records=3):
    """Writes the files of a run with a seed that the benchmark reads."""
    folder.mkdir(parents=True)
    write_json(folder / "config.json", {"seeds": str(seed)})
    with MetricLog(folder / "metrics.jsonl") as log:
        for step in range(records):
            log.write(step, {"objective": "reinforce", "sampled_mean": value + step, "standard_error": math.nan})


def test_runs_with_the_same_seed_are_compared(tmp_path):
    for seed in range(4):
        leave(tmp_path / "together" / "runs" / f"two_outcomes-{4 - seed}", seed, value=10.0 * seed)
    for seed, error in ((1, 0.0), (3, 0.25)):
        leave(tmp_path / "apart" / str(seed), seed, value=10.0 * seed + error)
    assert sweeps.largest_difference(tmp_path / "together", tmp_path / "apart") == 0.25
    leave(tmp_path / "apart" / "0", 0, value=math.nan)
    assert math.isnan(sweeps.largest_difference(tmp_path / "together", tmp_path / "apart"))
    leave(tmp_path / "apart" / "2", 2, value=20.0, records=2)
    assert math.isnan(sweeps.largest_difference(tmp_path / "together", tmp_path / "apart"))


def test_a_command_that_fails_is_quoted():
    with pytest.raises(ValueError, match="ended with status 1 and said: NameError: name 'no_such_name' is not defined"):
        sweeps.finish("-c", "no_such_name")


@pytest.mark.slow
def test_the_sweep_and_its_processes_have_the_same_metrics(tmp_path, capsys):
    file = tmp_path / "sweeps.json"
    benchmark.main(["sweeps", "--seeds=2", "--all", f"--json={file}"])
    timing = json.loads(file.read_text())["sweeps"]
    assert timing["difference"] == 0.0
    assert timing["sample"] == timing["seeds"] == 2
    assert timing["ratio"] == pytest.approx(timing["apart"]["median"] / timing["together"]["median"])
    assert f"ratio {timing['ratio']:.1f}" in capsys.readouterr().out
