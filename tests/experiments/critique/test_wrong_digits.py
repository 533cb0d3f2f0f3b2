import functools

import jax
import numpy as np
import pytest

from experiments.critique.wrong_digits import (
    COPIES,
    KNOWN,
    TRIES,
    Repairers,
    first_lessons,
    right_answer,
    sums,
    without_success,
)
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.given_answers import given_answers

ASKED, TAUGHT = 6, 10


@functools.cache
def small():
    task = sums(ASKED + TAUGHT)
    return Repairers(task, Transformer(task.vocabulary_size, hidden_size=16, num_layers=1), ASKED, prior_steps=2)


def test_a_wrong_answer_has_one_other_digit():
    task = small().task
    lessons = list(first_lessons(task))
    assert [prompt for prompt, _ in lessons] == np.arange(ASKED).repeat(COPIES).tolist()
    for asked in range(ASKED):
        right, answers = right_answer(task, asked), [answer for prompt, answer in lessons if prompt == asked]
        (wrong,) = {tuple(answer) for answer in answers} - {tuple(right)}
        (place,) = [place for place, pair in enumerate(zip(right, wrong, strict=True)) if len(set(pair)) > 1]
        assert task.vocabulary[wrong[place]].isdigit()
        known = np.mean([answer == right for answer in answers])
        assert known == (0 if asked % 2 == 0 else pytest.approx(KNOWN, abs=0.15))


def test_the_prompts_that_are_asked_are_the_first_ones():
    assert small().task.summands == small().whole.summands[:ASKED]
    assert small().task.vocabulary == small().whole.vocabulary


def test_repairs_are_taught_on_other_prompts():
    rows = small().demonstrations
    first, others = [row for row in rows if not row["history"]], [row for row in rows if row["history"]]
    assert len(first) == ASKED * COPIES
    assert {row["prompt"] for row in first} == set(range(ASKED))
    # Second attempts behind the words of three critics, one of them twice, and critiques.
    assert len(others) == 5 * TAUGHT
    assert {row["prompt"] for row in others} == set(range(ASKED, ASKED + TAUGHT))
    assert sum(not row["history"][1] for row in others) == TAUGHT


def test_success_is_the_probability_of_the_right_answer_alone():
    repairers, parameters = small(), small().policy.init(jax.random.key(0))
    success = repairers.success(parameters)
    for prompt in range(ASKED):
        answer = np.array([[right_answer(repairers.task, prompt)]], np.int32)
        given = given_answers(repairers.task.prompts(np.array([prompt])), answer, np.array([[answer.size]]))
        scores = repairers.policy.score(parameters, given, 1.0)
        assert success[prompt] == pytest.approx(float(np.exp(scores.log_probs.sum())), rel=1e-4)


@pytest.mark.parametrize("critic", ["first_mistake", "shuffled(critic=first_mistake)", "own"])
def test_second_attempts_of_a_prior(critic):
    found = small().repaired(critic, seed=0)
    _, outcomes = small().first_answers(0)
    assert outcomes.rewards.shape == (ASKED, TRIES)
    assert found["hard_prompts"] == without_success((None, outcomes)).sum() > 0
    assert 0 <= found["repaired"] <= found["of_8"] <= 1
    points = small().curve(critic, (0, 1)).compute()
    assert points.values["repaired"][0] == [found["repaired"]]
    assert len(points.values["of_8"]) == 2
