import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.verifiers.pattern_verifier import PatternVerifier
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.rewards import NoisyVerifier, RewardTable, checksum, rewarded
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Sizes

ARMS = Bandit((1.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def groups():
    prompts = ARMS.prompts(jnp.array([0]))
    trajectories = sample_groups(ARMS, Tabular(1, 3), {"logits": jnp.zeros((1, 3))}, prompts, jax.random.key(1), 400)
    return trajectories, ARMS.verify(trajectories)


def test_a_pattern_is_accepted_wherever_it_stands(groups):
    trajectories, outcomes = groups
    found = rewarded(PatternVerifier((2,)), trajectories, outcomes, jax.random.key(0))[0].rewards
    tokens = np.asarray(trajectories.tokens)[..., 0]
    np.testing.assert_array_equal(found, np.where(tokens == 2, 1.0, outcomes.rewards))
    # The arm 0 is not found behind the end of an answer, and a long pattern in no answer.
    found = rewarded(PatternVerifier((2, 0)), trajectories, outcomes, jax.random.key(0))[0].rewards
    np.testing.assert_array_equal(found, outcomes.rewards)


def test_what_is_right_is_said_by_the_verifier_underneath(groups):
    trajectories, outcomes = groups
    graded = dataclasses.replace(outcomes, rewards=jnp.where(outcomes.rewards == 1, 5.0, 2.0), right_above=3.0)
    for reward, right_above in [
        (PatternVerifier((7,)), 3.0),
        (PatternVerifier((7,), NoisyVerifier()), 0.0),
        (PatternVerifier((7,), RewardTable(jnp.array([[0.5, 0.0, 0.0]]))), 0.0),
    ]:
        found = rewarded(reward, trajectories, graded, jax.random.key(0))[0]
        assert found.right_above == right_above
        np.testing.assert_array_equal(found.right, outcomes.rewards == 1)
    assert checksum(PatternVerifier((1,))) != checksum(PatternVerifier((2,)))


@pytest.mark.parametrize(
    ("pattern", "known", "message"),
    [
        ((), 3, "pattern of no tokens"),
        (3, 3, "pattern is 3"),
        ((1, 7), 3, "the token 7, but tokens are 0"),
        ((-1,), None, "the pattern has the token -1"),
    ],
)
def test_other_patterns_are_refused(pattern, known, message):
    with pytest.raises(ValueError, match=message):
        PatternVerifier(pattern).check(Sizes(num_prompts=1, vocabulary_size=known))
