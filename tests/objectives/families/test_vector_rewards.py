import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.dynamics.expected_update import expected_update
from ipsrl.environments.graphs.bandit import VectorBandit
from ipsrl.objectives import make
from ipsrl.rewards import FormulaReward, NoisyVerifier
from tests.objectives.groups import advantages_of, assert_close, rollouts_of

FRONT = VectorBandit(((1.0, 0.0), (0.0, 1.0), (0.6, 0.6), (0.3, 0.3)))
"""Three arms that no other is better than in both rewards; the third has the best mean, the last is worse than it."""
OWN_REWARDS = jnp.asarray(FRONT.outcome_space(0).rewards)


def groups(*parts):
    parts = np.float32(parts)
    return rollouts_of(np.zeros((*parts.shape[:2], 1)), rewards=parts.mean(axis=-1), reward_parts=parts)


def test_the_scale_is_that_of_the_batch():
    """S is 2, -2, then -1, 1 where the second reward is equal, then 0, 0: std sqrt(10 / 6)."""
    batch = groups([[1, 3], [0, 1]], [[0, 5], [7, 5]], [[2, 5], [2, 5]])
    std = (10 / 6) ** 0.5
    assert_close(advantages_of("gdpo", batch), np.array([[2, -2], [-1, 1], [0, 0]]) / std)


def test_rewards_that_cancel_leave_nothing_but_rounding_which_is_zero():
    """The two rewards add up to a constant; 1/3 and 0.1 leave rounding, which a std of the batch would enlarge."""
    for size in (2, 3, 5, 7):
        first = np.random.default_rng(size).permutation(np.arange(size) / 3)
        weights = advantages_of("gdpo", groups(np.stack([first, 0.1 - first], axis=-1)))
        assert not weights.any()
    assert not advantages_of("gdpo", groups(np.full((7, 2), 0.1))).any()


def test_weights_are_one_for_each_reward():
    with pytest.raises(ValueError, match="there are 3 weights, but 2 rewards of each answer: give 2"):
        advantages_of("gdpo(weights=(1, 2, 3))", groups([[1, 0], [0, 1]]))
    with pytest.raises(ValueError, match=r"each weight of a reward is -1\.0, it must be finite and not negative"):
        make("gdpo(weights=(1.0, -1.0))")


@pytest.mark.parametrize("rewards", [jnp.ones(4), NoisyVerifier(0.1, 0.1)], ids=["a table", "a noisy verifier"])
def test_rewards_that_are_not_the_environments_own_are_refused(rewards):
    with pytest.raises(ValueError, match=r"must be the environment's own: give environment.outcome_space\(0\).rewards"):
        expected_update(make("gdpo"), jnp.zeros(4), rewards, 3, environment=FRONT)
    with pytest.raises(ValueError, match=r"needs reward_parts, .* take an environment that gives them, as vector"):
        expected_update(make("gdpo"), jnp.zeros(4), OWN_REWARDS, 3)


def test_the_environments_own_rewards_may_be_a_reward():
    own = expected_update(make("gdpo"), jnp.zeros(4), OWN_REWARDS, 3, environment=FRONT)
    formula = FormulaReward(lambda answers, outcomes: outcomes.rewards)
    assert_close(expected_update(make("gdpo"), jnp.zeros(4), formula, 3, environment=FRONT), own)
    assert float(jnp.abs(own).max()) > 0.01
