import functools

import numpy as np
import pytest

from experiments import search_diversity
from experiments.search_diversity import (
    BY_ANSWER,
    BY_BEHAVIOUR,
    DIVERSE,
    GRPO,
    NAMES,
    NARROW,
    PRIOR,
    RANDOM,
    REWARDED,
    ROUTES,
    SHIFTED,
    THEN,
    Settings,
)
from experiments.search_diversity.agents import ALL, ASKED
from experiments.search_diversity.search_routes import demonstrations, known_routes
from ipsrl import objectives

SETTINGS = Settings(seeds=(0, 1), intervals=2, steps_between=2, group_size=8, demonstrations=16, sft_rate=32.0)


@functools.cache
def found(arm, rate=64.0):
    return search_diversity.points(arm, SETTINGS, rate).values


def ends(arm, name="right"):
    return found(arm)[name][:, -1]


def test_training_asks_the_first_questions_of_all():
    assert ASKED.questions == ALL.questions[:8]
    assert ASKED.num_observations * 2 == ALL.num_observations
    assert all(len(ALL.routes(prompt, 3)) > 10 for prompt in range(16))


def test_the_prior_is_poor_alike_on_all_questions():
    prior = found(PRIOR)
    for part in ("", "held_out_"):
        assert ((prior[f"{part}pass_1"] > 0.05) & (prior[f"{part}pass_1"] < 0.25)).all()
        assert (prior[f"{part}wrong"] > 60).all()


def test_shifted_routes_are_those_of_the_next_question():
    assert known_routes(ASKED, 7, "shifted") == known_routes(ASKED, 0, "all")
    rows = demonstrations(ASKED, "shifted", answers=32)
    ended = [[answer[-2] - 4 == ASKED.answers[row["prompt"]] for answer in row["answers"]] for row in rows]
    assert np.mean(ended) < 0.3


def test_demonstrations_teach_what_they_show():
    assert (ends(DIVERSE) > 1.2 * ends(PRIOR)).all()
    assert (ends(NARROW) < ends(PRIOR)).all()
    assert (ends(NARROW, "pass_1") > ends(DIVERSE, "pass_1")).all()
    assert (ends(SHIFTED, "pass_1") < ends(DIVERSE, "pass_1")).all()
    for arm in ROUTES:
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
    assert set(NAMES) == {PRIOR, *ROUTES, *REWARDED}
    assert len({objectives.make(text).aggregation for text in REWARDED.values()}) == 1
