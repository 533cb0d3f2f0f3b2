import functools

import numpy as np
import pytest

from experiments.mode_bench import several_answers
from experiments.mode_bench.several_answers import RIGHT, SeveralAnswers, liked, measures
from ipsrl.environments.tasks.mode_bench import mode_bench
from ipsrl.policies.transformer import Transformer
from ipsrl.training.settings import TrainSettings

TRAINING = TrainSettings(steps=4, prompts_per_step=32, group_size=8, learning_rate=0.01, evaluate_every=3)


def world_of(domain: str, prior_steps: int) -> SeveralAnswers:
    task = mode_bench(domain)
    policy = Transformer(task.vocabulary_size, hidden_size=16, num_layers=1)
    return SeveralAnswers(task, policy, 16, prior_steps, TRAINING, 8)


@functools.cache
def answers() -> SeveralAnswers:
    return world_of("graph_coloring", 100)


@pytest.mark.parametrize("domain", ["graph_coloring", "factors"])
def test_problems_are_asked_in_the_order_of_the_parts(domain):
    world = world_of(domain, 4)
    asked = [world.asked.question_text(prompt) for prompt in range(256)]
    trained, held_out = mode_bench(domain), mode_bench(domain, split="held_out")
    assert asked[:128] == [trained.question_text(prompt) for prompt in range(256, 384)]
    assert asked[128:] == [held_out.question_text(prompt) for prompt in range(128)]
    assert world.asked.vocabulary == world.task.vocabulary


def test_a_prior_is_taught_small_numbers():
    task = answers().task
    weights = liked(task)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose((weights * task.admissible).sum(axis=1), RIGHT + 0.4 * task.admissible.mean(axis=1))
    right = np.flatnonzero(task.admissible[0])
    products = [np.prod([int(number) for number in task.hypotheses[i].split()]) for i in right]
    above = weights[0, right] - 0.4 / task.num_hypotheses
    np.testing.assert_allclose(above * products, above[0] * products[0])


def test_demonstrations_are_drawn_as_they_are_liked():
    task = mode_bench("factors")
    rows = several_answers.demonstrated(task)
    assert [row["prompt"] for row in rows] == [prompt for prompt in range(384) for _ in range(8)]
    drawn = np.array([row["outcomes"] for row in rows])
    right = np.take_along_axis(task.admissible.repeat(8, axis=0), drawn, axis=1).mean()
    assert right == pytest.approx((liked(task) * task.admissible).sum(axis=1).mean(), abs=0.01)
    first = rows[0]
    assert [task.parse(answer) for answer in first["answers"]] == first["outcomes"]


def test_measures_of_answers_written_down():
    outcomes = np.array([[3, 3, 5, -1], [2, -1, -1, -1], [-1, -1, -1, -1], [0, 1, 2, 3]])
    found = measures(outcomes, outcomes >= 0)
    of_three = np.exp(2 / 3 * np.log(3 / 2) + 1 / 3 * np.log(3))
    assert found == pytest.approx(
        {"pass_1": 0.5, "pcmd": (2 / 3 + 1) / 2, "defined": 0.5, "effective": (of_three + 1 + 0 + 4) / 4}, rel=1e-6
    )
    assert measures(outcomes[1:3], outcomes[1:3] >= 0)["pcmd"] == 0


def test_a_curve_begins_at_the_prior_and_learns(monkeypatch):
    world = answers()
    points = world.curve("ips_grpo", (0, 1), "colouring").compute()
    assert list(points.steps) == [0, 3, 4]
    before = world.measured(world.prior, 1)
    assert {name: values[1][0] for name, values in points.values.items()} == pytest.approx(before)
    assert any(values[1][0] != values[1][2] for values in points.values.values())

    def never(*_, **__):
        raise AssertionError("a prior was taught again")

    monkeypatch.setattr(several_answers, "teacher", never)
    assert world_of("graph_coloring", 100).prior.keys() == world.prior.keys()
