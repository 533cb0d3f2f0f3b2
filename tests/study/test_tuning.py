import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl import objectives
from ipsrl.environments.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.study.tuning import at_best_rate
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class Settings:
    seeds: tuple[int, ...] = (0, 1)
    tuning_seeds: tuple[int, ...] = (7,)
    learning_rates: tuple[float, ...] = (1e-4, 0.3)
    record_every: int = 10


def right(parameters):
    return {"right": jax.nn.softmax(parameters["logits"][0])[0]}


def wrong(parameters):
    return {"wrong": 1 - right(parameters)["right"]}


def test_the_best_rate_is_that_of_the_score_and_starts_are_kept_apart():
    trainer = Trainer(Bandit((1.0, 0.0)), Tabular(1, 2), objectives.make("dr_grpo"), TrainSettings(20, 1, 8))
    starts = {"logits": jnp.asarray([[[0.0, 0.0]], [[-2.0, 0.0]]])}
    even, poor = at_best_rate(trainer, right, "right", starts, Settings())
    assert even.values["learning_rate"] == poor.values["learning_rate"] == 0.3
    assert (list(even.steps), even.seeds) == ([0, 10, 20], (0, 1))
    np.testing.assert_allclose(even.values["right"][:, 0], 0.5)
    np.testing.assert_allclose(poor.values["right"][:, 0], 1 / (1 + np.exp(2)), rtol=1e-5)
    assert (even.values["right"][:, -1] > 0.9).all()
    assert at_best_rate(trainer, wrong, "wrong", starts, Settings())[0].values["learning_rate"] == 1e-4
