import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.catalog import make
from ipsrl.environments.graphs.bandit import VectorBandit
from ipsrl.policies.tabular import Tabular
from tests.sampled_groups import sample_and_verify

pytestmark = pytest.mark.core


def test_arms_with_several_rewards_earn_their_mean():
    bandit, policy = make("vector_bandit(rewards=((1, 0, 2), (0.25, 0.5, 0)))"), Tabular(1, 2)
    assert bandit == VectorBandit(((1.0, 0.0, 2.0), (0.25, 0.5, 0.0)))
    assert (bandit.num_prompts, bandit.num_observations, bandit.num_outcomes) == (1, 1, 2)
    np.testing.assert_array_equal(bandit.outcome_space(0).rewards, [1.0, 0.25])
    parameters, prompts = policy.init(jax.random.key(0)), bandit.prompts(jnp.zeros(3, jnp.int32))
    _, outcomes = sample_and_verify(bandit, policy, parameters, prompts, jax.random.key(1), 4, 1.0)
    arms = np.asarray(outcomes.outcome_id)
    assert 0 < arms.mean() < 1
    np.testing.assert_array_equal(outcomes.reward_parts, np.float32(bandit.rewards)[arms])
    np.testing.assert_array_equal(outcomes.rewards, np.float32([1.0, 0.25])[arms])
