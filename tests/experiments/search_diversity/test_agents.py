"""Search agents: their prior, their demonstrations, and what each way of training does to them."""

import functools

import numpy as np
import pytest

from experiments.search_diversity.agents import (
    BY_ANSWER,
    BY_BEHAVIOUR,
    DIVERSE,
    GRPO,
    NAMES,
    NARROW,
    PRIOR,
    RANDOM,
    REWARDED,
    SHIFTED,
    TAUGHT,
    THEN,
    Agents,
    Budget,
    ShiftedRoutes,
)
from experiments.search_diversity.search_routes import SearchRoutes
from ipsrl import objectives

WORLD = Agents()
BUDGET = Budget(steps=4, record_every=2, group_size=8, demonstrations=16, sft_rate=32.0)


@functools.cache
def found(arm, rate=64.0):
    return WORLD.found(arm, rate, (0, 1), BUDGET)


def ends(arm, name="right"):
    return found(arm)[name][:, -1]


def test_training_asks_the_first_questions_of_all():
    assert WORLD.task().questions == WORLD.asked.questions[:8]
    assert WORLD.task().num_observations * 2 == WORLD.asked.num_observations
    assert all(len(WORLD.asked.routes(prompt, 3)) > 10 for prompt in range(16))


def test_the_prior_is_poor_alike_on_all_questions():
    prior = found(PRIOR)
    for part in ("", "held_out_"):
        assert ((prior[f"{part}pass_1"] > 0.05) & (prior[f"{part}pass_1"] < 0.25)).all()
        assert (prior[f"{part}wrong"] > 60).all()


def test_shifted_routes_are_those_of_the_next_question():
    task = WORLD.task()
    assert ShiftedRoutes().known(task, 7) == SearchRoutes().known(task, 0)
    rows = ShiftedRoutes(answers=32).rows(task)
    ended = [[answer[-2] - 4 == task.answers[row["prompt"]] for answer in row["answers"]] for row in rows]
    assert np.mean(ended) < 0.3


def test_demonstrations_teach_what_they_show():
    assert (ends(DIVERSE) > 1.2 * ends(PRIOR)).all()
    assert (ends(NARROW) < ends(PRIOR)).all()
    assert (ends(NARROW, "pass_1") > ends(DIVERSE, "pass_1")).all()
    assert (ends(SHIFTED, "pass_1") < ends(DIVERSE, "pass_1")).all()
    for arm in TAUGHT:
        assert (found(arm)["right"][:, 0] == found(PRIOR)["right"][:, 0]).all()


def test_rewards_teach_at_a_rate():
    grpo, slow = found(GRPO), found(GRPO, 1e-6)
    assert (grpo["pass_1"][:, -1] > grpo["pass_1"][:, 0] + 0.1).all()
    assert slow["pass_1"][:, -1] == pytest.approx(slow["pass_1"][:, 0], abs=0.01)
    assert grpo["right"].shape == (2, 3)
    assert (grpo["right"][:, 0] == found(PRIOR)["right"][:, 0]).all()


def test_where_one_answer_is_right_ips_by_answer_is_grpo():
    assert ends(BY_ANSWER, "pass_1") == pytest.approx(ends(GRPO, "pass_1"), abs=0.02)
    assert (ends(BY_BEHAVIOUR, "effective") > ends(GRPO, "effective")).all()


def test_arms_differ_in_where_they_begin_and_what_is_rewarded():
    assert (found(THEN)["right"][:, 0] == ends(DIVERSE)).all()
    assert (ends(RANDOM, "pass_1") < ends(GRPO, "pass_1")).all()


def test_every_arm_has_a_name_and_one_aggregation():
    assert set(NAMES) == {PRIOR, *TAUGHT, *REWARDED}
    assert len({objectives.make(text).aggregation for text, _ in REWARDED.values()}) == 1
