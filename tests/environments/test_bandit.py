import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.bandit import Bandit, VectorBandit
from ipsrl.environments.catalog import make
from ipsrl.policies.tabular import Tabular
from tests.sampled_groups import sample_and_verify

pytestmark = pytest.mark.core


def test_one_prompt_is_one_state_and_every_arm_one_outcome():
    bandit = Bandit((4.0, 1.0, -2.0))
    assert (bandit.num_prompts, bandit.num_observations, bandit.max_tokens) == (1, 1, 1)
    assert bandit.vocabulary_size == bandit.num_outcomes == 3
    np.testing.assert_array_equal(bandit.outcome_space(0).rewards, [4.0, 1.0, -2.0])
    state = bandit.step(bandit.reset(jax.random.key(0), jnp.asarray(0), 0), jnp.asarray(2))
    assert bandit.finished(state)


def test_every_prompt_has_its_own_state_and_rewards():
    bandit = Bandit(((1.0, 0.0), (0.25, 0.5)))
    assert (bandit.num_prompts, bandit.num_observations, bandit.num_outcomes) == (2, 2, 2)
    np.testing.assert_array_equal(bandit.observe(bandit.reset(jax.random.key(0), jnp.arange(2), 0)), [0, 1])
    np.testing.assert_array_equal(bandit.outcome_space(1).rewards, [0.25, 0.5])


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
