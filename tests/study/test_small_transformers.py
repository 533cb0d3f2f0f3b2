import dataclasses

from experiments.mode_bench import Settings
from ipsrl import study
from ipsrl.environments.tasks.addition import Addition
from ipsrl.training.settings import TrainSettings


def test_settings_make_the_policy_and_its_training():
    settings = Settings(hidden_size=16, num_layers=1, steps=7, prompts_per_step=4, group_size=2, evaluate_every=3)
    policy = settings.transformer(Addition(problems=4))
    assert (policy.vocabulary_size, policy.hidden_size, policy.num_layers) == (Addition().vocabulary_size, 16, 1)
    expected = TrainSettings(7, 4, 2, learning_rate=1e-3, evaluate_every=3)
    assert settings.training() == expected
    assert settings.training(steps=5) == dataclasses.replace(expected, steps=5)


def test_points_of_runs_have_an_axis_of_seeds():
    runs = [[{"reward": 1.0}, {"reward": 2.0}], [{"reward": 3.0}, {"reward": 4.0}]]
    points = study.Points.of_runs([0, 10], iter(runs), (5, 6))
    assert points.values["reward"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert [row["seed"] for row in points.records({})] == [5, 5, 6, 6]
