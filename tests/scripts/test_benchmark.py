import json
from pathlib import Path

import jax
import pytest

import benchmark
from benchmarks import objectives, peer_environments, sequence_models, shared_prompt, sweeps
from ipsrl.command.definitions import Module
from ipsrl.objectives import make
from ipsrl.synthetic_rollouts import synthetic_rollouts

pytestmark = pytest.mark.core

SHAPE = (4, 4, 6)


@pytest.fixture
def timed(tmp_path, capsys):
    """Call with a command for what it writes, and what it prints."""

    def timed(*command):
        file = tmp_path / "timed.json"
        benchmark.main([*command, "--runs=5", f"--json={file}"])
        return json.loads(file.read_text()), capsys.readouterr().out

    return timed


@pytest.mark.slow
def test_objectives_can_be_timed(timed):
    names = ("flowrl", "grpo", "lp_reg")
    written, shown = timed("objectives", "--shape=[4, 4, 6]", f"--only={','.join(names)}")
    assert sorted(timing["objective"] for timing in written["objectives"]) == sorted(names)
    ratios = [timing["ratio"] for timing in written["objectives"]]
    assert ratios == sorted(ratios, reverse=True)
    for timing in written["objectives"]:
        assert 0 < timing["shortest"] <= timing["median"] <= timing["longest"]
    assert {"jax", "load", "cpus", "devices"} <= written["machine"].keys()
    assert all(name in shown for name in names)


@pytest.mark.slow
def test_expected_updates_turns_and_bandits_can_be_timed(timed):
    written, shown = timed("expected_update", "--only=reinforce")
    assert [(each["outcomes"], each["group_size"]) for each in written["expected_updates"]] == [(5, 16), (3, 64)]
    assert shown.count("reinforce") == 2
    written, shown = timed("agents", "--prompts=2", "--group=4", "--only=interview table")
    timing, *_ = written["agents"]
    assert (timing["environment"], timing["turns"]) == ("interview table", 2 * 4 * 40)
    assert timing["rate"] == pytest.approx(timing["turns"] / timing["seconds"]["median"])
    assert "interview" in shown
    assert "grpo" in timed("bandit", "--ensemble=3", "--arms=2", "--group=2", "--only=grpo")[1]


def test_a_slow_row_is_flagged_and_the_table_has_the_order_given():
    rows = [
        objectives.Timing("slow", 0.0065, 0.006, 0.009, ratio=3.2, temporary=2.0, compilation=0.1),
        objectives.Timing("grpo", 0.002, 0.001, 0.003, ratio=1.0, temporary=1.0, compilation=0.1),
    ]
    _, slow, grpo = objectives.table(rows).splitlines()
    assert slow.split()[:3] == ["slow", "3.20", "6.50"]
    assert slow.endswith("above 3 x GRPO")
    assert grpo.split() == ["grpo", "1.00", "2.00", "(1.00", "to", "3.00)", "1.00", "0.1"]


def test_the_program_gives_the_gradient_of_the_loss():
    rollouts, scores = synthetic_rollouts(0, *SHAPE)
    program, temporary, _ = objectives.compiled(make("grpo"), rollouts, scores)
    _, metrics, [((gradient, _), output)] = program()
    assert gradient.log_probs.shape == SHAPE
    assert (gradient.log_probs != 0).any()
    assert gradient.top_log_probs is None
    assert float(output.count) == SHAPE[0] * SHAPE[1]
    assert "degenerate_groups" in metrics
    assert temporary >= 0


FEW = "are too few"
BAD_INPUT = (
    ("objectives --only=gppp", "unknown objective 'gppp'"),
    ("objectives --only=", "write at least one name|cannot read ''"),
    ("objectives --only=grpo(", r"cannot read 'grpo\('"),
    ("objectives --runs=4", f"4 runs {FEW} for a median"),
    ("objectives --shape=[1,1,6] --only=grpo", "group_size is 1, it must be at least 2"),
    *(
        (f"objectives --shape={shape}", "write three positive whole numbers, as in")
        for shape in ("[4,4]", "[4,0,6]", "[4,4,6.5]", "[")
    ),
    (f"objectives --json={Path(__file__).parent}", "is a folder; it must be a file"),
    ("grpo_step --workloads=S,X", "--workloads has 'X'; known: S, M, L"),
    ("memory --workloads=S,S", "a name is given twice"),
    ("compile --runs=2", f"2 runs {FEW}"),
    ("language_model --against=nowhere", r"--against=nowhere has no ipsrl/training/language_model\.py: give a clone"),
    ("language_model --contenders=ipsrl --model_dir=nowhere", "there is no folder nowhere"),
    ("language_model --runs=1", f"1 runs {FEW}"),
    ("hypergrid --grids=2by8", "--grids has '2by8': write dimensions x side, as in 2x20"),
    ("hypergrid --grids=9x20", "--grids has '9x20': use a grid of 2 to 1,000,000 cells"),
    ("hypergrid --grids=2x1", "with side 2 or more"),
    ("hypergrid --batches=1", "--batches has '1': write whole numbers of 2 or more"),
    ("hypergrid --seconds=0", "--seconds is 0.0, it must be positive"),
    ("hypergrid --runs=4", f"4 runs {FEW}"),
    ("agents --prompts=0", "--prompts is 0, it must be at least 1"),
    ("bandit --arms=1", "--arms is 1, it must be at least 2"),
    ("bandit --group=1", "--group is 1, it must be at least 2"),
    ("bandit --ensemble=0", "--ensemble is 0, it must be at least 1"),
    ("bandit --runs=1", f"1 runs {FEW}"),
    ("sweeps --runs=4", f"4 runs {FEW} for a median"),
    ("sweeps --seeds=0", "--seeds is 0, it must be at least 1"),
    ("sweeps --sample=0", "--sample is 0, it must be at least 1"),
    ("sweeps --at_once=0", "--at_once is 0, it must be at least 1"),
    ("sweeps --seeds=4", "--sample is 8, it must be at most 4"),
)


@pytest.mark.parametrize(("command", "message"), BAD_INPUT)
def test_bad_input_is_refused_in_one_sentence_before_anything_is_done(command, message, monkeypatch):
    # Into how many devices the CPU is divided can be said once in a process, and the tests have said it.
    monkeypatch.setattr(benchmark, "start_up", lambda devices: None)
    for module, work in ((objectives, "compiled"), (sweeps, "finish"), (peer_environments, "python")):
        monkeypatch.setattr(module, work, lambda *_: pytest.fail("it has begun to work"))
    with pytest.raises(SystemExit, match=f"^error: .*({message})") as refusal:
        benchmark.main(command.split())
    assert "\n" not in refusal.value.code  # a text: the status is 1


def test_a_wrong_file_is_refused_before_the_imports():
    arguments = benchmark.parser().parse_args(["bandit", "--json=nowhere/file.json"])
    with pytest.raises(ValueError, match=r"--json=nowhere/file\.json: there is no folder "):
        Module("scripts.benchmark").check(arguments)


@pytest.mark.slow
def test_state_space_models_are_timed_beside_transformers_of_equal_size():
    timings = sequence_models.time_models("small", answers=2, length=3, runs=2)
    assert [timing.part for timing in timings] == ["scores", "gradient", "sampling"]
    for size in sequence_models.SIZES:
        shapes = [jax.eval_shape(policy.init, jax.random.key(0)) for policy in sequence_models.models(size, 33)]
        one, other = (sum(leaf.size for leaf in jax.tree.leaves(tree)) for tree in shapes)
        assert 0.95 < one / other < 1.05


@pytest.mark.slow
def test_a_shared_prompt_saves_operations():
    (timing,) = shared_prompt.time_shared_prompts([(24, 8)], prompts=1, group=4, runs=2)
    assert (timing.prompt, timing.answer) == (24, 8)
    assert timing.shared > 0 < timing.repeated
    # Of 24 + 4 * 8 tokens and 4 * (24 + 8): the logits of answers alone cost both the same.
    assert 1.5 < timing.operations < 4 * 32 / 56
