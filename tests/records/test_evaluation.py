import json
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.records.evaluation import RANKS, Evaluation, EvaluationLog, shared_at_start
from ipsrl.rollouts.sampled_answers import Completion
from tests.records.bandit_run import interrupted_at, train_bandit
from tests.tiers import slow_after

FILES = ("metrics.jsonl", "outcomes.jsonl", "completions.jsonl")
SAID = Completion(prompt_index=3, prompt="a\nb", completion='</script> "x" \u2028', reward=1.0, outcome=None)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def evaluate(step, parameters):
    probs = np.exp(np.asarray(parameters["logits"][0], np.float64))
    probs = np.sort(probs / probs.sum())[::-1]
    return Evaluation({"largest": probs[0]}, probs, [SAID] * 2)


def run(path, evaluate, resume=False):
    train_bandit(path, evaluate, resume, steps=7, evaluate_every=2, checkpoint_every=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nobody interrupted."""
    path = tmp_path_factory.mktemp("whole")
    run(path, evaluate)
    return path


def test_shares_at_every_evaluation_and_texts_at_the_first_and_the_last(whole):
    outcomes = lines(whole / "outcomes.jsonl")
    assert [record["step"] for record in outcomes] == [0, 2, 4, 6, 7]
    metrics = {record["step"]: record for record in lines(whole / "metrics.jsonl")}
    for record in outcomes:
        assert record["ranked_shares"][0] == metrics[record["step"]]["evaluation/largest"]
        assert sum(record["ranked_shares"]) == pytest.approx(1)
        assert record["rest"] == 0
    said = {"prompt_index": 3, "prompt": "a\nb", "completion": SAID.completion, "reward": 1.0, "outcome": None}
    assert lines(whole / "completions.jsonl") == [{"step": step, **said} for step in (0, 0, 7, 7)]


@pytest.mark.parametrize("stop", slow_after(1, [4, 2, 7]))
def test_an_interrupted_run_leaves_the_same_bytes(whole, tmp_path, stop):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, interrupted_at(stop, evaluate))
    # The process was killed while it wrote.
    for name in FILES:
        with (tmp_path / name).open("a") as file:
            file.write('{"step": 99, "ranked_sh')
    run(tmp_path, evaluate, resume=True)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


def test_evaluations_of_metrics_alone_leave_no_files(tmp_path):
    run(tmp_path, lambda step, parameters: Evaluation({"step_done": step}))
    assert lines(tmp_path / "metrics.jsonl")[0] == {"step": 0, "evaluation/step_done": 0}
    assert not {path.name for path in tmp_path.iterdir()} & {"outcomes.jsonl", "completions.jsonl"}


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=3 * RANKS))
def test_what_is_past_the_last_rank_is_added_up(tmp_path_factory, shares):
    path = tmp_path_factory.mktemp("run")
    with closing(EvaluationLog(path, last_step=1)) as log:
        log.write(1, Evaluation({}, np.array(shares)))
    (record,) = lines(path / "outcomes.jsonl")
    assert record["ranked_shares"] == shares[:RANKS]
    assert record["rest"] == pytest.approx(sum(shares[RANKS:]))


def test_runs_that_start_alike_share_what_is_found_there():
    steps = []

    def find(step, parameters):
        steps.append(step)
        return Evaluation({"parameters": parameters})

    shared = shared_at_start(find)
    calls = ((0, 3), (5, 4), (0, 3), (5, 6))
    assert [shared(*call).metrics["parameters"] for call in calls] == [3, 4, 3, 6]
    assert steps == [0, 5, 5]
