import pytest

from experiments import staleness
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.study import claims

LABELS = ("surrogate", "mini_batches", "age", "learning_rate")


def rows(name, age, rate, rewards, scores, broken=0.0):
    labels = dict(zip(LABELS, (name, 8, age, rate), strict=True))
    values = zip(rewards, scores, strict=True)
    return [
        labels | {"seed": seed, "step": 10, "reward": reward, "score": score, "broken": broken}
        for seed, (reward, score) in enumerate(values)
    ]


def decided(records, sentence):
    return claims.decided(staleness.CLAIMS, Records(records, LABELS))[sentence]


def two_rates(name, old, broken=0.0):
    """The rate 0.1 is best at age 0, the rate 0.01 at age 8."""
    return [
        *rows(name, 0, 0.01, (0.5, 0.5), (0.5, 0.5)),
        *rows(name, 0, 0.1, (1.0, 1.0), (0.9, 0.9)),
        *rows(name, 8, 0.01, (0.5, 0.5), (0.5, 0.5)),
        *rows(name, 8, 0.1, old, (0.1, 0.1), broken),
    ]


def test_stable_is_what_keeps_its_reward_at_the_step_of_age_0_without_a_broken_run():
    for name, keeps, loses in (
        ("gppo stays stable at age 8", True, False),
        ("plain does not stay stable", False, True),
    ):
        surrogate = name.partition(" ")[0]
        assert decided(two_rates(surrogate, (0.92, 0.98)), name) is keeps
        assert decided(two_rates(surrogate, (0.7, 0.8)), name) is loses
        assert decided(two_rates(surrogate, (0.92, 0.98), broken=1.0), name) is loses
        assert decided(two_rates(surrogate, (0.8, 1.0)), name) is None
        assert decided([], name) is None


def test_arms_are_compared_each_at_its_best_step():
    sentence = staleness.MORE.format("bapo", "grpo")
    grpo = [*rows("grpo", 8, 0.01, (0, 0), (0.4, 0.5)), *rows("grpo", 8, 0.1, (0, 0), (0.6, 0.7))]

    def bapo(*scores):
        return [*rows("bapo", 8, 0.01, (0, 0), scores), *rows("bapo", 8, 0.1, (0, 0), (0.1, 0.2))]

    assert decided(grpo + bapo(0.75, 0.8), sentence) is True
    assert decided(grpo + bapo(0.5, 0.55), sentence) is False
    assert decided(grpo + bapo(0.65, 0.8), sentence) is None


def test_a_figure_of_an_arm_that_it_does_not_show_is_refused_in_a_sentence():
    arms = [*rows("tis", 0, 0.03, (0.8, 0.9), (0.4, 0.5)), *rows("tis", 8, 0.03, (0.8, 0.9), (0.4, 0.5))]
    with pytest.raises(NotRecorded, match="no record"):
        staleness.FIGURE(Records(arms, LABELS), staleness.PRESETS["smoke"])


def test_the_arm_that_was_added_later_is_drawn_alone():
    arms = rows("gppo_upper", 8, 0.03, (0.8, 0.9), (0.4, 0.5))
    assert staleness.FIGURE(Records(arms, LABELS), staleness.PRESETS["smoke"]).rows
