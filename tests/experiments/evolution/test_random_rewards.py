import jax
import numpy as np

from experiments.evolution.random_rewards import RandomRewards
from ipsrl.structures import Outcomes


def test_random_rewards_are_those_of_the_group_and_say_nothing_of_the_answer():
    rewards = np.float32([[0.0, 0.0, 1.0, 3.0], [2.0, 2.0, 2.0, 2.0]])
    outcomes = Outcomes(rewards=rewards, outcome_id=np.zeros((2, 4), np.int32))
    given = jax.vmap(lambda key: RandomRewards()(None, outcomes, key))(jax.random.split(jax.random.key(0), 4000))
    for answer in range(4):
        shares = [(given[:, 0, answer] == reward).mean() for reward in (0.0, 1.0, 3.0)]
        np.testing.assert_allclose(shares, [0.5, 0.25, 0.25], atol=0.04)
    assert np.all(given[:, 1] == 2.0)
    assert abs(np.corrcoef(given[:, 0, 0], given[:, 0, 1])[0, 1]) < 0.06
