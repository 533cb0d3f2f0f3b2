import functools
import types

import jax
import numpy as np
import pytest

from experiments.planning_and_execution.plan_mistakes import PlanMistakes
from experiments.planning_and_execution.planners import Planners, at_half, half_gain, strategic
from ipsrl.environments.tasks.plan_and_execute import PLANS, PlanAndExecute
from ipsrl.environments.text import STOP
from ipsrl.policies.transformer import Transformer
from ipsrl.records.tidy import NotRecorded
from ipsrl.training.settings import TrainSettings
from ipsrl.training.supervised.priors import Imitators
from tests.environments.reading.answers import trajectories_of
from tests.experiments.recorded import courses

TASK = PlanAndExecute(length=4, problems=8)
POLICY = Transformer(TASK.vocabulary_size, hidden_size=16, num_layers=1)
TRAINING = TrainSettings(steps=2, prompts_per_step=4, group_size=4, learning_rate=0.01)


@functools.cache
def planners() -> Planners:
    return Planners(TASK, POLICY, PlanMistakes(0.3, 0.6), 4, training=TRAINING, record_every=1)


def test_a_prior_is_taught_once_and_differs_by_seed(monkeypatch):
    first, other = planners()(0), planners()(1)
    assert not jax.tree.all(jax.tree.map(np.array_equal, first, other))

    def never(*_):
        raise AssertionError("a prior was taught again")

    monkeypatch.setattr(Imitators, "_teacher", never)
    assert jax.tree.all(jax.tree.map(np.array_equal, planners()(0), first))


def test_measures_are_those_of_a_distribution_written_down(monkeypatch):
    log_probs = np.full(TASK.executions.shape, np.log(0.9))
    # Half of the answers copy, a quarter reverse, none of the other four plans is likely.
    shares = np.array([0.5, 0.25, *[0.0625] * 4])
    log_probs[..., 0] = np.log(shares)
    entropy = np.ones_like(log_probs)
    entropy[..., 0] = 0.3
    # What follows a copy is the only uncertain thing.
    entropy[:, 1:, 1:] = 0.0
    scores = types.SimpleNamespace(log_probs=log_probs, entropy=entropy)
    monkeypatch.setattr("experiments.planning_and_execution.planners.scores", lambda *_: scores)
    found = planners().measured(None)
    right = (TASK.fits * shares).sum(axis=1).mean()
    assert found == pytest.approx(
        {
            "accuracy": right * 0.9**5,
            "right_plan": right,
            "execution": 0.9**5,
            "plan_entropy": 0.3,
            "execution_entropy": 0.5,
            "semantic_entropy": -(shares * np.log(shares)).sum(),
        }
    )


def test_measures_of_a_policy_are_finite_and_its_executions_those_of_the_task():
    found = planners().measured(planners()(0))
    assert set(map(np.isfinite, found.values())) == {True}
    assert np.array_equal(planners().executed.tokens, TASK.executions)
    assert found["semantic_entropy"] <= np.log(len(PLANS)) + 1e-6


def test_a_curve_begins_at_the_prior_and_learns():
    curve = planners().curve("hicra(alpha=0, entropy=0.1)", (0, 1), "usual")
    rows = list(curve.compute().records(curve.labels))
    assert [(row["seed"], row["step"]) for row in rows] == [(seed, step) for seed in (0, 1) for step in (0, 1, 2)]
    assert rows[0]["accuracy"] == pytest.approx(planners().measured(planners()(0))["accuracy"])
    assert rows[2]["plan_entropy"] != rows[0]["plan_entropy"]
    assert all(0 <= row[f"mined_{when}"] <= 1 for row in rows for when in ("before", "after"))


# 1, 2 and 3 are in three answers, 4 in two, 5, 6, 8 and 9 in one. 7 is in all, but twice in each.
ANSWERS = np.array([[1, 2, 7, 7, 5], [7, 1, 2, 7, 6], [1, 2, 7, 3, 7], [7, 8, 3, 4, 7], [3, 4, 7, 9, 7]])
ALL = np.ones(ANSWERS.shape, bool)


@pytest.mark.parametrize(
    ("answers", "mask", "kept", "found"),
    [
        (ANSWERS, ALL, 1 / 8, [1, 2, 3]),
        (ANSWERS, ALL, 4 / 8, [1, 2, 3, 4]),
        (ANSWERS, ALL, 5 / 8, [1, 2, 3, 4, 5, 6, 8, 9]),
        (ANSWERS, ANSWERS != 1, 1 / 7, [2, 3]),
        (ANSWERS, ~ALL, 0.5, []),
        (ANSWERS[:0], ALL[:0], 0.5, []),
    ],
)
def test_strategic_are_the_tokens_of_many_answers_without_repetitions_and_all_ties(answers, mask, kept, found):
    assert strategic(answers, mask, kept).tolist() == found


def test_the_plans_of_plan_and_execute_are_strategic():
    """Digits are in more answers than any plan, but several times each."""
    task = PlanAndExecute()
    answers = [row["answers"] for row in PlanMistakes(answers=20).rows(task)]
    trajectories = trajectories_of(task, range(task.num_prompts), answers)
    tokens = trajectories.tokens.reshape(-1, task.max_tokens)
    mask = trajectories.token_mask.reshape(tokens.shape) & (tokens != STOP)
    assert {task.vocabulary[token] for token in strategic(tokens, mask, 1.0)} == set(task.planning_symbols)


def records(**values):
    return courses(("arm",), {("a",): values}, range(0, 50, 10))


def test_half_of_a_gain_lies_between_records():
    found = records(
        execution=[[0.2, 0.8, 0.9, 1.0, 1.0], [0.0, 0.5, 1.0, 1.0, 1.0]],
        plans=[[0.3, 0.3, 0.3, 0.5, 0.9], [0.5, 0.5, 0.6, 0.6, 0.7]],
        falling=[[0.5, 0.4, 0.4, 0.4, 0.4]] * 2,
    )
    # 0.2 + 0.4 is reached after two thirds of the first ten updates.
    assert half_gain("execution", arm="a")(found).mean == pytest.approx((20 / 3 + 10) / 2)
    assert half_gain("plans", arm="a")(found).mean == pytest.approx((32.5 + 20) / 2)
    with pytest.raises(NotRecorded, match="does not gain"):
        half_gain("falling", arm="a")(found)


def test_a_value_is_read_where_another_one_has_made_half_of_its_gain():
    found = records(
        execution=[[0.2, 0.8, 0.9, 1.0, 1.0], [0.0, 0.4, 0.5, 0.9, 1.0]],
        entropy=[[2.0, 1.0, 1.5, 0.5, 0.4], [3.0, 1.0, 2.0, 0.5, 0.1]],
    )
    assert at_half("entropy", "execution", arm="a")(found).mean == pytest.approx((4 / 3 + 2.0) / 2)
