import jax
import numpy as np
import pytest

from experiments.entropy_law.spent_entropy import entropy_and_reward, mean_token_entropy
from ipsrl import objectives
from ipsrl.dynamics.trajectories import every_trajectory
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.state_table import log_probs_table
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


@pytest.mark.parametrize("environment", [Hypergrid(dimensions=2, side=3), Tree()], ids=["hypergrid", "tree"])
def test_mean_token_entropy_is_that_of_all_walks_by_their_probabilities(environment):
    policy = Tabular.of(environment)
    logits = jax.random.normal(jax.random.key(1), (environment.num_observations, environment.vocabulary_size))

    @jax.jit
    def walks_and_mean(parameters):
        walks = every_trajectory(environment, log_probs_table(policy, parameters, environment))
        return walks, mean_token_entropy(environment, policy, parameters)

    walks, mean = jax.device_get(walks_and_mean({"logits": logits}))
    probs = np.exp(walks.behaviour_log_probs[0].sum(axis=-1))
    exact = (probs @ walks.behaviour_entropy[0].sum(axis=-1)) / (probs @ walks.token_mask[0].sum(axis=-1))
    np.testing.assert_allclose(mean, exact, rtol=1e-5)
