import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling, fill
from ipsrl.training.settings import TrainSettings
from tests.sampled_groups import ask

pytestmark = pytest.mark.eight_devices

P, G = 4, 6
# Half of the prompts pay nothing whatever is done, which no sampling can change.
HOPELESS, HOPEFUL = (0.0, 0.0, 0.0), (1.0, 0.0, 0.5)
SETTINGS = TrainSettings(steps=1, prompts_per_step=P, group_size=G, wrappers=(DynamicSampling(),))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.booleans(), min_size=5, max_size=5), st.lists(st.booleans(), min_size=5, max_size=5))
def test_filling_keeps_what_is_kept_and_repeats_nothing(kept, usable):
    merged, now_kept = map(np.asarray, fill(jnp.arange(5), jnp.array(kept), 100 + jnp.arange(5), jnp.array(usable)))
    np.testing.assert_array_equal(merged[kept], np.arange(5)[kept])
    assert len(set(merged)) == 5
    assert now_kept.sum() == min(5, sum(kept) + sum(usable))
    fresh = merged[~np.array(kept)] - 100
    assert (fresh >= 0).all()
    # No informative group is left out while another slot holds one that is not.
    np.testing.assert_array_equal(np.array(usable)[fresh], now_kept[~np.array(kept)])


def collector(environment, mesh="replica:-1", **changes):
    policy = Tabular(environment.num_observations, environment.vocabulary_size)
    changed, parameters = dataclasses.replace(SETTINGS, **changes), policy.init(jax.random.key(0))
    return lambda step: ask(environment, policy, changed, parameters, 3, step, mesh=mesh)


def test_only_informative_groups_are_left_where_they_can_be_found():
    collect = collector(Bandit((HOPELESS,) * 4 + (HOPEFUL,) * 4))
    plain = collector(Bandit((HOPELESS,) * 4 + (HOPEFUL,) * 4), wrappers=())
    rounds = []
    for step in range(8):
        (trajectories, outcomes), metrics = collect(step)
        rewards = np.asarray(outcomes.rewards)
        assert (rewards.max(axis=1) > rewards.min(axis=1)).all()
        assert (trajectories.prompts.index >= 4).all()
        assert metrics["kept_groups"] == 1.0
        # Half of what is sampled pays nothing, and none of it is left in the batch.
        assert metrics["sampled_reward"] < 0.8 * rewards.mean()
        assert metrics["trajectories_sampled"] == metrics["sampling_rounds"] * P * G
        rounds.append(metrics["sampling_rounds"])
        # The groups belong together: every answer earns what its prompt pays for it.
        arms = np.asarray(trajectories.tokens)[..., 0]
        np.testing.assert_array_equal(rewards, np.array(HOPEFUL)[arms])
        # The first round is the batch of a run without the rule.
        (unfiltered, paid), nothing = plain(step)
        assert nothing == {}
        stays = np.asarray(paid.rewards).max(axis=1) > np.asarray(paid.rewards).min(axis=1)
        np.testing.assert_array_equal(arms[stays], np.asarray(unfiltered.tokens)[stays][..., 0])
    assert 2 <= min(rounds) < 5
    assert max(rounds) <= 10


def test_rounds_take_the_prompts_of_the_stream_in_turn():
    """Two rounds of four see all eight prompts; where all are hopeless, the last batch stays as it was sampled."""
    (trajectories, outcomes), metrics = collector(Bandit((HOPELESS,) * 8), wrappers=(DynamicSampling(2),))(0)
    (first, _), _ = collector(Bandit((HOPELESS,) * 8), wrappers=())(0)
    seen = {*np.asarray(trajectories.prompts.index).tolist(), *np.asarray(first.prompts.index).tolist()}
    assert seen == set(range(8))
    assert not outcomes.rewards.any()
    assert metrics["kept_groups"] == 0.0
    assert metrics["sampling_rounds"] == 2
    assert metrics["trajectories_sampled"] == 2 * P * G
    assert metrics["zero_variance_groups"] == 1.0


def test_rounds_of_one_prompt_draw_anew():
    """A bandit of one prompt meets it again in every round: only the randomness of the round can differ."""
    rare = Bandit((1.0, *(0.0,) * 15))
    draws = []
    for rounds in (1, 2, 3):
        (trajectories, _), metrics = collector(
            Bandit((0.0,) * 16), prompts_per_step=1, wrappers=(DynamicSampling(rounds),)
        )(0)
        assert metrics["sampling_rounds"] == rounds
        draws.append(np.asarray(trajectories.tokens).tobytes())
    assert len(set(draws)) == 3
    found = [collector(rare, prompts_per_step=1)(step)[1] for step in range(4)]
    assert {metrics["kept_groups"].item() for metrics in found} == {1.0}
    assert max(metrics["sampling_rounds"] for metrics in found) > 1


def test_one_device_fills_as_eight():
    environment = Bandit((HOPELESS,) * 8 + (HOPEFUL,) * 8)
    alone, measured = collector(environment, prompts_per_step=8)(1)
    shared, shared_measured = collector(environment, "data:8", prompts_per_step=8)(1)
    assert measured["sampling_rounds"] == shared_measured["sampling_rounds"] > 1
    np.testing.assert_array_equal(alone[0].tokens, shared[0].tokens)
    np.testing.assert_array_equal(alone[0].prompts.index, shared[0].prompts.index)
    assert {shard.data.shape[0] for shard in shared[0].tokens.addressable_shards} == {1}
