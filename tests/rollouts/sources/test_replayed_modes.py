"""One right answer of every outcome that was found: which are kept and added, and what training on them keeps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sources.replay import ReplayedAnswers
from ipsrl.rollouts.sources.replayed_modes import ReplayedModes
from ipsrl.rollouts.sources.source import Actors, Request, Sampled, wrapped
from ipsrl.training.ensemble import itself, train_ensemble
from ipsrl.training.settings import TrainSettings, make_batch_filters
from ipsrl.training.trainer import Trainer

ARMS = Bandit(((1.0,) * 5 + (0.0,),) * 2)
ON_ARMS = Tabular(ARMS.num_observations, ARMS.vocabulary_size)
UNIFORM = Actors({"logits": jnp.zeros((2, 6))})


def test_a_group_is_followed_by_one_answer_of_every_outcome_found_so_far():
    """A batch has its prompts twice; five of six arms are right, three outcomes are kept, this step's among them."""
    sampled = Sampled(ARMS, ON_ARMS, 4, 3)
    source = wrapped(sampled, [ReplayedModes(3)])
    assert source.optional_fields >= {"off_policy"}
    state, kept = source.init(UNIFORM, 0, None), {0: [], 1: []}
    for step in range(4):
        _, (own, own_outcomes), _ = sampled(None, UNIFORM, Request(0, step))
        state, (trajectories, outcomes), metrics = source(state, UNIFORM, Request(0, step))
        prompts = np.asarray(own.prompts.index)
        for prompt, group in zip(prompts, np.asarray(own_outcomes.outcome_id), strict=True):
            for outcome in group:
                if outcome < 5 and outcome not in kept[prompt] and len(kept[prompt]) < 3:
                    kept[prompt].append(outcome)
        expected = np.array([[*kept[prompt], -1, -1, -1][:3] for prompt in prompts])
        np.testing.assert_array_equal(outcomes.outcome_id[:, :3], own_outcomes.outcome_id)
        np.testing.assert_array_equal(outcomes.outcome_id[:, 3:], expected)
        np.testing.assert_array_equal(outcomes.rewards[:, 3:], expected >= 0)
        np.testing.assert_array_equal(trajectories.tokens[:, 3:, 0], np.maximum(expected, 0))
        np.testing.assert_array_equal(trajectories.token_mask[:, 3:, 0], expected >= 0)
        np.testing.assert_array_equal(trajectories.off_policy, [[False] * 3 + [True] * 3] * 4)
        scores = ON_ARMS.score(UNIFORM.policy, trajectories, 1.0)
        np.testing.assert_allclose(trajectories.behaviour_log_probs, scores.log_probs, atol=1e-6)
        assert float(metrics["modes_kept"][0]) == (len(kept[0]) + len(kept[1])) / 2
    assert len(kept[0]) == len(kept[1]) == 3


def test_a_command_may_name_it():
    filters = make_batch_filters("replayed_modes(outcomes=4), replayed_answers(outcomes=2)")
    assert filters == (ReplayedModes(4), ReplayedAnswers(2))


def ends(objective, rewards, start, **filters):
    """`[8 seeds, K]`, the distributions over the arms of a bandit after training with groups of 16."""
    bandit = Bandit(rewards)
    settings = TrainSettings(1000, 8, 16, optimizer="sgd", learning_rate=1.0, max_gradient_norm=None, **filters)
    policy = Tabular(bandit.num_observations, bandit.vocabulary_size)
    trainer = Trainer(bandit, policy, objectives.make(objective), settings)
    starts = {"logits": jnp.tile(jnp.log(jnp.float32(start)), (8, 1, 1))}
    path = train_ensemble(trainer, jnp.arange(8), itself, record_every=1000, initial_parameters=starts)
    return np.asarray(jax.nn.softmax(path["logits"][:, -1, 0]), np.float64)


def rest(rewards, beta, relative):
    """Where the mean update vanishes: p_k = beta / (m (beta + w (E[r] - r_k))) at right arms, their sum is 1.

    w is 15/16, because an answer counts in the mean of its group of 16; for MaxRL, of a large group, over E[r].
    """
    right = np.array([reward for reward in rewards if reward > 0])

    def at(mean):
        weight = 1 / mean if relative else 15 / 16
        return beta / (len(right) * (beta + weight * (mean - right)))

    # The sum falls as the mean grows; at `low` the probability of the best would be infinite.
    low, high = right.max() / (1 + beta) if relative else right.max() - 16 / 15 * beta, right.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).sum() > 1 else (low, middle)
    return np.array([*at(high), *[0.0] * (len(rewards) - len(right))])


REWARDS, START = (1.0, 1.0, 0.5, 0.0), (0.6, 0.02, 0.08, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["dr_grpo", "maxrl"])
def test_every_found_mode_has_a_floor_and_those_of_one_reward_share_alike(base):
    """The likeliest of two equally good arms takes all by expected return; with the bank the rare one is its equal."""
    assert (ends(base, REWARDS, START)[:, 0] > 0.99).all()
    found = ends(f"mode_replay(base={base}, beta=0.1)", REWARDS, START, wrappers=(ReplayedModes(4),))
    expected = rest(REWARDS, 0.1, relative=base == "maxrl")
    error = found.std(axis=0, ddof=1) / np.sqrt(8)
    assert (np.abs(found.mean(axis=0) - expected) < 4 * error + 0.002).all()
    assert expected[0] == expected[1]
    # beta / (m (beta + w E[r])), with w E[r] at most 1.
    assert (found[:, :3] > 0.1 / (3 * 1.1) * 0.9).all()
