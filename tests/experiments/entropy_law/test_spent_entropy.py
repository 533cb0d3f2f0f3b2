import numpy as np
import pytest

from experiments.entropy_law.spent_entropy import entropy_and_reward
from ipsrl import objectives
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer


def test_entropy_and_reward_are_those_of_the_policy_and_start_at_its_initial_one():
    training = TrainSettings(steps=4, prompts_per_step=1, group_size=8)
    trainer = Trainer(Bandit((2.0, 1.0, 0.0)), Tabular(1, 3), objectives.make("grpo"), training)
    found = entropy_and_reward(trainer, (0, 1), every=2)
    assert found["entropy"].shape == found["reward"].shape == (2, 3)
    np.testing.assert_allclose(found["entropy"][:, 0], np.log(3), rtol=1e-6)
    np.testing.assert_allclose(found["reward"][:, 0], (2 + 1) / 3 / 2, rtol=1e-6)
    assert found["entropy"][0, -1] == pytest.approx(entropy_and_reward(trainer, (0,), every=4)["entropy"][0, -1])
