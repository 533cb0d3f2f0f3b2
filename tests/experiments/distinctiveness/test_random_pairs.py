import dataclasses

import jax
import numpy as np
import pytest

from experiments.distinctiveness.random_pairs import RandomPairs
from ipsrl.objectives.catalog.refinements import DistinctPairs
from ipsrl.synthetic_rollouts import synthetic_rollouts


@pytest.mark.slow
def test_a_random_mask_keeps_as_many_answers_of_each_reward_but_others():
    rollouts, _ = synthetic_rollouts(0, prompts=6, group=16, length=5)
    rollouts = dataclasses.replace(rollouts, keys=jax.random.split(jax.random.key(1), 6))
    masks = [part(0.9).kept(rollouts.rewards, rollouts) for part in (DistinctPairs, RandomPairs)]
    for reward in (0.0, 1.0):
        kept, at_random = ((mask & (rollouts.rewards == reward)).sum(axis=1) for mask in masks)
        assert np.array_equal(kept, at_random)
    assert 0.2 < masks[0].mean() < 0.8
    assert not np.array_equal(*masks)
    # All answers of a reward have the same chance.
    keys = jax.random.split(jax.random.key(2), (500, 6))

    def kept(keys):
        return RandomPairs(0.9).kept(rollouts.rewards, dataclasses.replace(rollouts, keys=keys))

    often = jax.vmap(kept)(keys).mean(axis=0)
    for group, rewards in zip(often, rollouts.rewards, strict=True):
        for reward in (0.0, 1.0):
            assert np.ptp(group[rewards == reward]) < 0.15
