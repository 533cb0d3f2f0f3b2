import numpy as np
import pytest

from experiments import staleness
from ipsrl.records.tidy import NotRecorded
from tests.experiments.recorded import made_up

LABELS = ("surrogate", "mini_batches", "age", "learning_rate")


def records(*runs):
    """Four seeds of each run, (name, age, learning rate, reward, score)."""
    arms = {
        (name, 8, age, rate): {"reward": reward + 0.1 * np.arange(4), "score": score, "broken": [1.0, 0, 0, 0]}
        for name, age, rate, reward, score in runs
    }
    return made_up(LABELS, arms)


def test_stable_is_what_keeps_its_reward_at_the_step_of_age_0():
    found = records(
        ("gppo", 0, 0.01, 0.2, 0.5), ("gppo", 0, 0.1, 0.5, 0.9), ("gppo", 8, 0.01, 0.5, 0.6), ("gppo", 8, 0.1, 0.4, 0.1)
    )
    # Nine tenths of the reward at age 0 of the same seed.
    assert staleness.kept("gppo", 8).of_seeds(found).values == pytest.approx([-0.05, -0.04, -0.03, -0.02])
    assert staleness.broken("gppo", 8)(found).mean == 0.25


def test_arms_are_compared_each_at_its_best_step():
    found = records(
        ("bapo", 8, 0.01, 0, 0.65), ("bapo", 8, 0.1, 0, 0.1), ("grpo", 8, 0.01, 0, 0.4), ("grpo", 8, 0.1, 0, 0.6)
    )
    assert staleness.learns_more("bapo", "grpo").number(found).mean == pytest.approx(0.05)


def test_a_figure_of_an_arm_that_it_does_not_show_is_refused_in_a_sentence():
    found = records(("no_ratio", 0, 0.03, 0.8, 0.4), ("no_ratio", 8, 0.03, 0.8, 0.4))
    with pytest.raises(NotRecorded, match="no record"):
        staleness.FIGURE(found, staleness.PRESETS["smoke"])


def test_the_arm_that_was_added_later_is_drawn_alone():
    found = records(("gppo_upper", 8, 0.03, 0.8, 0.4))
    assert staleness.FIGURE(found, staleness.PRESETS["smoke"]).rows
