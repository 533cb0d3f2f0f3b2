"""The best answers of earlier steps: which are kept, and which are added."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sources.best_answers import BestAnswers
from ipsrl.rollouts.sources.diversity_filter import DiversityFilter
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.replay import ReplayedAnswers
from ipsrl.rollouts.sources.source import Actors, Request, Sampled, wrapped
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer
from tests.sampled_groups import steps_of

# An arm's reward is its tenth.
ARMS = Bandit((tuple(arm / 10 for arm in range(10)),) * 2)
ON_ARMS = Tabular(ARMS.num_observations, ARMS.vocabulary_size)
UNIFORM = Actors({"logits": jnp.zeros((2, 10))})
TEXT = HypospaceBoolean("basic", depth=1)
ON_TEXT = Transformer(TEXT.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=1)


def test_the_best_distinct_answers_are_kept_and_some_of_those_before_this_step_are_added():
    """Each step has both prompts twice; the arms that were pulled are known, so the kept ones follow by sorting."""
    sampled, pulled = Sampled(ARMS, ON_ARMS, 4, 3), {0: [], 1: []}
    source, drawings = wrapped(sampled, [BestAnswers(4, 2)]), set()
    for step, ((trajectories, outcomes), metrics, (kept, _)) in enumerate(steps_of(source, 8, UNIFORM)):
        _, (own, own_outcomes), _ = sampled(None, UNIFORM, Request(0, step))
        np.testing.assert_array_equal(trajectories.tokens[:, :3], own.tokens)
        np.testing.assert_array_equal(outcomes.rewards[:, :3], own_outcomes.rewards)
        np.testing.assert_array_equal(trajectories.off_policy, [[False] * 3 + [True] * 2] * 4)
        full = 0
        for row, prompt in enumerate(trajectories.prompts.index):
            best = sorted(set(pulled[prompt]) - {0}, reverse=True)[:4]
            places = [3 + place for place in range(2) if place < len(best)]
            added = trajectories.tokens[row, places, 0].tolist()
            assert len(set(added)) == len(added)
            assert set(added) <= set(best)
            np.testing.assert_allclose(outcomes.rewards[row, places], np.array(added) / 10, rtol=1e-6)
            np.testing.assert_array_equal(outcomes.outcome_id[row, places], added)
            assert trajectories.token_mask[row, places].all()
            empty = slice(3 + len(places), None)
            assert not trajectories.token_mask[row, empty].any()
            assert not outcomes.rewards[row, empty].any()
            assert (outcomes.outcome_id[row, empty] == -1).all()
            assert not trajectories.behaviour_log_probs[row, empty].any()
            full += len(places)
            drawings.add(tuple(added))
        assert metrics["best_answers"] == full / 8
        for prompt, arms in zip(np.asarray(own.prompts.index), np.asarray(own.tokens)[..., 0].tolist(), strict=True):
            pulled[prompt] += arms
        best = [sorted(set(pulled[prompt]) - {0}, reverse=True)[:4] for prompt in (0, 1)]
        for prompt in (0, 1):
            padding = [0] * (4 - len(best[prompt]))
            np.testing.assert_array_equal(kept[0].tokens[prompt, :, 0], best[prompt] + padding)
            np.testing.assert_array_equal(kept[0].token_mask[prompt, :, 0], [True] * len(best[prompt]) + padding)
        assert metrics["best_kept"] == pytest.approx(np.mean(np.concatenate(best)) / 10)
        scores = ON_ARMS.score(UNIFORM.policy, trajectories, 1.0)
        np.testing.assert_allclose(trajectories.behaviour_log_probs, scores.log_probs, atol=1e-6)
    assert [len(of_prompt) for of_prompt in best] == [4, 4]
    assert len(drawings) > 5


def test_of_equal_rewards_the_earliest_are_kept_with_the_reward_they_had_first():
    """All arms but 0 pay 1 until the filter has seen them twice; what is kept keeps its reward."""
    bandit = Bandit(((0.0,) + (1.0,) * 9,))
    policy = Tabular(bandit.num_observations, bandit.vocabulary_size)
    sampled, order = Sampled(bandit, policy, 1, 4), []
    actors = Actors({"logits": jnp.zeros((1, 10))})
    source = wrapped(sampled, [BestAnswers(5, 1), DiversityFilter(2)])
    for step, (_, _, (kept, _)) in enumerate(steps_of(source, 8, actors)):
        _, (own, _), _ = sampled(None, actors, Request(0, step))
        order += np.asarray(own.tokens).ravel().tolist()
        expected = [arm for arm in dict.fromkeys(order) if arm][:5]
        np.testing.assert_array_equal(kept[0].tokens[0, :, 0], (expected + [0] * 5)[:5])
        np.testing.assert_array_equal(kept[1].rewards[0], ([1.0] * len(expected) + [0.0] * 5)[:5])
    assert len(expected) == 5


@pytest.mark.slow
def test_answers_that_another_wrapper_put_in_stay_marked():
    source = wrapped(Sampled(ARMS, ON_ARMS, 2, 3), [BestAnswers(4, 2), ReplayedAnswers(2)])
    assert source.optional_fields >= {"off_policy"}
    (trajectories, _), _, _ = steps_of(source, 6, UNIFORM)[-1]
    assert trajectories.off_policy[:, 2].any()
    assert not trajectories.off_policy[:, :2].any()
    assert trajectories.off_policy[:, 3:].all()


@pytest.mark.slow
def test_reinvent_learns_nothing_from_empty_places():
    """A first step, where nothing is kept yet: the same update as without them."""
    after = []
    for filters in ({}, {"wrappers": (BestAnswers(8, 5),)}):
        settings = TrainSettings(1, 2, 3, optimizer="sgd", learning_rate=0.01, **filters)
        trainer = Trainer(ARMS, ON_ARMS, objectives.make("reinvent(sigma=4.0)"), settings)
        with jax.set_mesh(make_mesh("replica:-1")):
            state, metrics = trainer.step(trainer.init(0))
        after.append((state.parameters["logits"], float(metrics["reward"]), float(metrics["loss"])))
    np.testing.assert_allclose(after[1][0], after[0][0], atol=1e-7)
    assert after[1][1:] == pytest.approx(after[0][1:])
    assert np.abs(after[0][0]).max() > 1e-3


@pytest.mark.parametrize(
    "added",
    [{"wrappers": (BestAnswers(10**6),)}, {"wrappers": (OffPolicyAnswers(10**9),)}],
    ids=lambda added: next(iter(added)),
)
def test_what_is_added_counts_in_the_check_of_memory(added, monkeypatch):
    trainer = Trainer(TEXT, ON_TEXT, objectives.make("reinvent"), TrainSettings(1, 2, 2))
    monkeypatch.setattr("ipsrl.distributed.memory.available", lambda: 2 * 10**8)
    with jax.set_mesh(make_mesh("replica:-1")):
        trainer.check()
        more = dataclasses.replace(trainer.settings, **added)
        with pytest.raises(
            ValueError, match=r"the answers that batch filters add take .* or more, but there are 200 MB"
        ):
            dataclasses.replace(trainer, settings=more).check()
