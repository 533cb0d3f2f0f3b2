import dataclasses

import numpy as np

from experiments import group_size_or_sampling as study
from experiments.exams.exam import Exam
from tests.experiments.recorded import courses, recorded

LABELS = ("arm", "group_size", "learning_rate")


def records(*curves):
    """A curve of each seed, of (arm, group size, learning rate, ends): half of its end until 60 % of the budget."""
    points = range(study.POINTS)
    course = 1 / (1 + (np.array(points) < 25))
    return courses(LABELS, {tuple(labels): {"accuracy": np.outer(ends, course)} for *labels, ends in curves}, points)


def test_a_budget_is_spent_at_the_group_size_that_is_best_at_its_end():
    found = records(("DEPO", 8, 0.1, [0.8, 0.9]), ("DEPO", 16, 0.1, [0.6, 0.6]), ("DEPO", 8, 0.2, [0.1, 0.2]))
    assert study.accuracy_after(0.6, "DEPO").of_seeds(found).values.tolist() == [0.4, 0.45]
    assert study.accuracy_after(1, "DEPO").of_seeds(found).values.tolist() == [0.8, 0.9]
    assert study.accuracy("DEPO").of_seeds(found).values.tolist() == [0.8, 0.9]


def test_the_best_is_one_of_the_named_group_sizes():
    found = records(("GRPO", 8, 0.1, [0.8, 0.9]), ("GRPO", 16, 0.1, [0.6, 0.7]), ("GRPO", 32, 0.1, [0.5, 0.6]))
    assert study.accuracy_with((16, 32), "GRPO").of_seeds(found).values.tolist() == [0.6, 0.7]


def test_points_lie_at_equal_numbers_of_sampled_trajectories(tmp_path):
    few = {"prompts": 16, "families": 4, "batch": 32, "budget": 128, "group_sizes": (4,)}
    settings = dataclasses.replace(study.PRESETS["smoke"], arms=("GRPO",), **few)
    records = recorded(study, settings, tmp_path / "out")
    places, accuracy = records.curve("accuracy")
    assert places[0] == 0
    assert places[-1] == 128
    runs = study.runs("GRPO", 4, settings).trained
    p = Exam.of(16, 4).success(Exam.of(16, 4).prior(settings.spread))
    np.testing.assert_allclose(runs["silent"][0, :, 0], np.mean(p**4 + (1 - p) ** 4), rtol=1e-5)
    for seed in (0, 1):
        of_seed = runs["trajectories"][0, seed], runs["accuracy"][0, seed]
        np.testing.assert_allclose(accuracy[seed], np.interp(np.linspace(0, 128, 41), *of_seed))


def test_depo_warms_up_for_a_tenth_of_the_run():
    settings = study.PRESETS["demo"]
    (predicts,) = study.filters("DEPO", settings)
    assert predicts.warm_up == settings.budget // settings.batch // 10
    assert (predicts.lowest, predicts.highest) == (0.15, 0.85)
