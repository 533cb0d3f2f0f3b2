import functools

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.words.shared_words import SharedTable, Words
from experiments.words.stale_groups import Grid, broken, mean_so_far, points, std_so_far, train_on_old_groups
from ipsrl import objectives
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

WORDS = Words(asked=4, letters=2, length=3, right=2)
POLICY = SharedTable(WORDS.num_observations, WORDS.vocabulary_size, width=5)
TRAINER = Trainer(
    WORDS, POLICY, objectives.make("grpo"), TrainSettings(steps=4, prompts_per_step=4, group_size=4, learning_rate=0.1)
)


def measure(now, then, groups):
    sampled = POLICY.score(then, groups[0], 1.0).log_probs - groups[0].behaviour_log_probs
    return {"now": now["weights"][0, 0], "then": then["weights"][0, 0], "off": jnp.abs(sampled).max()}


@functools.cache
def found():
    return train_on_old_groups(TRAINER, measure, 1, Grid((0, 1), (0, 1, 2), (0.1, 0.2)))


def test_at_age_0_a_run_is_the_trainers():
    measured, metrics = found()
    metrics = {name: of[..., 0] for name, of in metrics.items()}
    assert measured["now"].shape == metrics["reward"].shape == (2, 3, 2, 4)
    recorded = train_ensemble(TRAINER, jnp.asarray((0, 1)), lambda parameters: parameters["weights"][0, 0])
    assert measured["now"][:, 0, 0] == pytest.approx(np.asarray(recorded[:, 1:]), rel=1e-5)
    assert not np.allclose(measured["now"][:, 0, 0], measured["now"][:, 0, 1])


def test_a_batch_is_sampled_by_the_policy_of_its_age():
    measured, metrics = found()
    metrics = {name: of[..., 0] for name, of in metrics.items()}
    initially = np.zeros_like(measured["now"][..., :1])
    policies = np.concatenate([initially, measured["now"]], axis=-1)
    for age in (0, 1, 2):
        expected = [policies[:, age, :, max(batch - age, 0)] for batch in range(4)]
        assert measured["then"][:, age] == pytest.approx(np.stack(expected, axis=-1))
    assert measured["off"].max() < 1e-5
    # All start with groups of the initial policy; its ratio is 1 only while nothing has been learned.
    assert metrics["reward"][:, 0, :, 0] == pytest.approx(metrics["reward"][:, 2, :, 0])
    assert metrics["behaviour_kl"][:, 0].max() < 1e-6 < metrics["behaviour_kl"][:, 1:, :, 1:].min()


def test_points_keep_each_value_beside_its_age_and_learning_rate():
    values = np.arange(24.0).reshape(2, 3, 2, 2)
    found = points({"value": values}, 10, Grid((5, 6), (0, 1, 2), (0.1, 0.2)))
    rows = [row for row in found.records({}) if (row["seed"], row["age"], row["learning_rate"]) == (6, 1, 0.2)]
    assert [(row["step"], row["value"]) for row in rows] == [(10, values[1, 1, 1, 0]), (20, values[1, 1, 1, 1])]


def test_courses_of_runs():
    assert broken(np.array([0.1, 0.6, 0.31, 0.29, 0.5])).tolist() == [0, 0, 0, 1, 0]
    assert mean_so_far(np.array([np.nan, 1.0, np.nan, 4.0])).tolist() == pytest.approx([np.nan, 1, 1, 2.5], nan_ok=True)
    assert std_so_far(np.array([[1.0, 1.0], [1.0, 5.0]])).tolist() == pytest.approx([0, np.std([1, 1, 1, 5])])
