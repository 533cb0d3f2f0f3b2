"""What priors of sums are taught, and what is measured of them."""

import functools

import jax
import numpy as np
import pytest

from experiments.critique.wrong_digits import COPIES, TRIES, Repairers, WrongDigits, without_success
from ipsrl.environments import critiques
from ipsrl.environments.text import STOP
from ipsrl.rollouts.sources.stored_groups import given_answers

ASKED, TAUGHT = 6, 10


@functools.cache
def small():
    return Repairers(ASKED, TAUGHT, hidden_size=16, num_layers=1, prior_steps=2)


def test_a_wrong_answer_has_one_other_digit():
    task = small().task
    for prompt, row in enumerate(WrongDigits(answers=200).rows(task)):
        right = [*critiques.true_answer(task, prompt), STOP]
        wrong = {tuple(answer) for answer in row["answers"]} - {tuple(right)}
        assert len(wrong) == 1
        places = [place for place, pair in enumerate(zip(right, *wrong, strict=True)) if len(set(pair)) > 1]
        assert len(places) == 1
        assert task.vocabulary[next(iter(wrong))[places[0]]].isdigit()
        known = np.mean([answer == right for answer in row["answers"]])
        assert known == (0 if prompt % 2 == 0 else pytest.approx(0.3, abs=0.1))


def test_who_knows_everything_knows_odd_prompts_alone():
    rows = WrongDigits(answers=4, known=1.0).rows(small().task)
    right = [critiques.is_right(small().task, row["prompt"], row["outcomes"][0]) for row in rows]
    assert right == [False, True] * (ASKED // 2)
    with pytest.raises(ValueError, match="known is 2"):
        WrongDigits(known=2.0)


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
        answer = np.array([[[*critiques.true_answer(repairers.task, prompt), STOP]]], np.int32)
        given = given_answers(repairers.task.prompts(np.array([prompt])), answer, np.array([[answer.size]]))
        scores = repairers.policy.score(parameters, given, 1.0)
        assert success[prompt] == pytest.approx(float(np.exp(scores.log_probs.sum())), rel=1e-4)


@pytest.mark.parametrize("critic", ["first_mistake", "shuffled(critic=first_mistake)", "own"])
def test_second_attempts_of_a_prior(critic):
    found = small().repaired(critic, seed=0)
    [_, outcomes] = small().first_answers(0)[1]
    assert outcomes.rewards.shape == (ASKED, TRIES)
    assert found["hard_prompts"] == without_success((None, outcomes)).sum() > 0
    assert 0 <= found["repaired"] <= found["of_8"] <= 1
    points = small().curve(critic, (0, 1)).compute()
    assert points.values["repaired"][0] == [found["repaired"]]
    assert len(points.values["of_8"]) == 2
