import pytest

from experiments import staleness
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.study import claims

LABELS = ("surrogate", "mini_batches", "age", "learning_rate")


def rows(name, age, rate, rewards, scores, broken=0.0, number=8):
    labels = dict(zip(LABELS, (name, number, age, rate), strict=True))
    values = zip(rewards, scores, strict=True)
    return [
        labels | {"seed": seed, "step": 10, "reward": reward, "score": score, "broken": broken}
        for seed, (reward, score) in enumerate(values)
    ]


def decided(records, sentence):
    return claims.decided(staleness.CLAIMS, Records(records, LABELS))[sentence]


def two_rates(name, old, broken=0.0, number=8):
    """The rate 0.1 is best at age 0, the rate 0.01 at age 8; seeds differ by more than a tenth."""
    runs = (
        (0, 0.01, (0.5, 0.5), (0.5, 0.5)),
        (0, 0.1, (0.5, 1.0), (0.9, 0.9)),
        (8, 0.01, (0.5, 0.5), (0.5, 0.5)),
        (8, 0.1, old, (0.1, 0.1), broken),
    )
    return [row for each in runs for row in rows(name, *each, number=number)]


@pytest.mark.parametrize(
    ("name", "number", "keeps"),
    [("gppo", 8, True), ("tis", 8, True), ("plain", 8, False), ("grpo", 4, False), ("plain", 1, False)],
)
def test_stable_is_what_keeps_its_reward_at_the_step_of_age_0_without_a_broken_run(name, number, keeps):
    rule = staleness.STABLE if keeps else staleness.NOT
    sentence = rule.format(staleness.NAMES[name], staleness.TIMES[number])
    # Of each seed it is nine tenths of the reward at age 0 that counts.
    assert decided(two_rates(name, (0.47, 0.93), number=number), sentence) is keeps
    assert decided(two_rates(name, (0.4, 0.8), number=number), sentence) is not keeps
    assert decided(two_rates(name, (0.47, 0.93), 1.0, number), sentence) is not keeps
    assert decided(two_rates(name, (0.4, 1.0), number=number), sentence) is None
    assert decided([], sentence) is None


def test_the_six_are_stable_if_each_is():
    sentence = staleness.STABLE.format("each of the six", staleness.TIMES[4])

    def of_six(gppo):
        olds = dict.fromkeys(staleness.SIX, (0.5, 1.0)) | {"gppo": gppo}
        return [row for name, old in olds.items() for row in two_rates(name, old, number=4)]

    assert decided(of_six((0.5, 1.0)), sentence) is True
    assert decided(of_six((0.2, 0.4)), sentence) is False
    assert decided(of_six((0.4, 1.0)), sentence) is None


def test_arms_are_compared_each_at_its_best_step():
    sentence = staleness.MORE.format("BAPO", "GRPO's clip")
    grpo = [*rows("grpo", 8, 0.01, (0, 0), (0.4, 0.5)), *rows("grpo", 8, 0.1, (0, 0), (0.6, 0.7))]

    def bapo(*scores):
        return [*rows("bapo", 8, 0.01, (0, 0), scores), *rows("bapo", 8, 0.1, (0, 0), (0.1, 0.2))]

    assert decided(grpo + bapo(0.65, 0.75), sentence) is True
    assert decided(grpo + bapo(0.61, 0.71), sentence) is False
    assert decided(grpo + bapo(0.58, 0.8), sentence) is None


def test_a_figure_of_an_arm_that_it_does_not_show_is_refused_in_a_sentence():
    arms = [*rows("no_ratio", 0, 0.03, (0.8, 0.9), (0.4, 0.5)), *rows("no_ratio", 8, 0.03, (0.8, 0.9), (0.4, 0.5))]
    with pytest.raises(NotRecorded, match="no record"):
        staleness.FIGURE(Records(arms, LABELS), staleness.PRESETS["smoke"])


def test_the_arm_that_was_added_later_is_drawn_alone():
    arms = rows("gppo_upper", 8, 0.03, (0.8, 0.9), (0.4, 0.5))
    assert staleness.FIGURE(Records(arms, LABELS), staleness.PRESETS["smoke"]).rows
