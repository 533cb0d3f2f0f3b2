import dataclasses
import functools
import json

import jax
import pytest

import benchmark
from benchmarks import growth, grpo_step, measuring
from benchmarks.workloads import WORKLOADS

SMALL = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "num_key_value_heads": 2, "intermediate_size": 32}
SMALL |= {"prompts": 4, "group_size": 2, "prompt_length": 3, "completion_length": 3}


def test_parameters_are_counted_as_the_policy_has_them():
    for workload in WORKLOADS.values():
        policy = grpo_step.policy_of(workload, "float32")
        shapes = jax.tree.leaves(jax.eval_shape(policy.init, jax.random.key(0)))
        assert workload.parameters == sum(shape.size for shape in shapes)


def test_a_power_law_has_its_exponent():
    assert growth.exponent([1, 2, 4], [3.0, 12.0, 48.0]) == pytest.approx(2)


def test_sizes_grow_by_their_factor():
    workload = WORKLOADS["S"]
    assert growth.grown(workload, "prompts", 4) == {"prompts": 64}
    wider = dataclasses.replace(workload, **growth.grown(workload, "parameters", 4))
    assert (wider.hidden_size, wider.num_heads, wider.intermediate_size) == (256, 8, 1024)
    assert 3.9 < wider.parameters / workload.parameters < 4.1
    assert growth.grown(workload, "parameters", 1)["hidden_size"] == workload.hidden_size


@pytest.mark.slow
def test_no_program_is_compiled_after_the_first_step(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(grpo_step, "start", functools.partial(grpo_step.start, changes=SMALL))
    monkeypatch.setattr(measuring, "FEWEST_RUNS", 1)
    benchmark.main(["compile", "--workloads=S", "--runs=1", f"--json={tmp_path / 'compile.json'}"])
    found = json.loads((tmp_path / "compile.json").read_text())["compile"]["S"]
    assert len(set(found["programs"])) == 1
    assert "programs after step" in capsys.readouterr().out
