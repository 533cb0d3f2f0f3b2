import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.hybrid_addition.mode_adders import ModeAdders, course
from experiments.hybrid_addition.mode_mistakes import ModeMistakes
from ipsrl.environments.tasks.addition_modes import AdditionModes
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.training.settings import TrainSettings

TASK = AdditionModes(digits=1, problems=8)
POLICY = Transformer(TASK.vocabulary_size, hidden_size=16, num_layers=1)
MISTAKES = ModeMistakes(right_short=0.5, answers=8)
ADDERS = ModeAdders(TASK, POLICY, MISTAKES, 150, tables=8, training=TrainSettings(2, 4, 4), answers=512)


def test_measures_are_those_of_the_policys_own_answers():
    prior = ADDERS(3)
    exact = ADDERS.of_prompts(prior, 3, 0)
    free = jax.device_get(sample_groups(TASK, POLICY, prior, TASK.prompts(jnp.arange(8)), jax.random.key(9), 2048))
    found, rewards = TASK.modes(free), TASK.verify(free).rewards
    for name, mode in (("short", 0), ("think", 1)):
        of_mode = found.mode == mode
        skill = (found.right & of_mode).sum(axis=1) / of_mode.sum(axis=1)
        np.testing.assert_allclose(exact[name], skill, atol=0.1)
    np.testing.assert_allclose(exact["thinking"], (found.mode == 1).mean(axis=1), atol=0.06)
    np.testing.assert_allclose(exact["choosing_short"], (found.mode == 0).mean(axis=1), atol=0.06)
    means = ADDERS.measures(prior, 3, 0)
    assert means["reward"] == pytest.approx(rewards.mean(), abs=0.03)
    assert means["short"] == pytest.approx((means["short_1"] + means["short_2"]) / 2, rel=1e-5)
    assert means["fits"] == pytest.approx(means["thinking_2"] - means["thinking_1"], abs=1e-6)
    # Half of the demonstrations think, and more of those are right.
    assert 0.3 < means["rarer"] < 0.5
    assert means["think"] > means["short"]


def test_a_path_depends_on_its_seed_its_rate_and_what_is_forced():
    adders = dataclasses.replace(ADDERS, answers=4)
    ends = {}
    for forced, rate in (("none", 1e-2), ("none", 1e-3), ("half", 1e-2)):
        points = adders.curve("grpo", forced, rate, (0, 1), {"arm": "x"}).compute()
        assert list(points.steps) == [0, 1, 2]
        assert points.values["thinking"].shape == (2, 3)
        ends[forced, rate] = points.values
    starts = [values["thinking"][:, 0].tolist() for values in ends.values()]
    assert starts[0] == starts[1] == starts[2]
    assert starts[0][0] != starts[0][1]
    changes = [np.abs(np.diff(values["short"])).mean() for values in ends.values()]
    assert changes[0] > 2 * changes[1] > 0
    assert ends["half", 1e-2]["short"][:, 1:].tolist() != ends["none", 1e-2]["short"][:, 1:].tolist()


def test_a_mode_that_is_left_early_is_seen_where_it_was_left():
    values = {
        "thinking": np.array([[0.5, 0.995, 0.7], [0.5, 0.3, 0.005], [0.5, 0.5, 0.5]]),
        "short": np.array([[0.1, 0.2, 0.3], [0.1, 0.6, 0.9], [0.3, 0.2, 0.1]]),
        "think": np.full((3, 3), 0.9),
    }
    found = course(values, np.array([0, 10, 20]))
    assert found["until"].tolist() == [[10], [20], [20]]
    assert found["short_then"].tolist() == [[0.2], [0.9], [0.1]]
    np.testing.assert_allclose(found["short_gain"][:, -1], [0.2, 0.8, -0.2])
    np.testing.assert_allclose(found["think_gain"], 0.0)
