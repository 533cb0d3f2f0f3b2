"""A tool speaks in the middle of an answer: the policy reads its words, but is not taught to say them."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh, shard_prompts
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.objectives.catalog.whole_batch import ReturnToGo
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.rewards import NoisyVerifier
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Outcomes, Rollouts
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer
from tests.look_up import FIRST_RESULT, RESULT, RESULTS, LookUp
from tests.sampled_groups import check_run
from tests.training.in_the_loop import records_of

pytestmark = pytest.mark.eight_devices

TASK = LookUp()
POLICY = Transformer(TASK.vocabulary_size, hidden_size=32, num_layers=2, num_heads=4, num_key_value_heads=2)
SETTINGS = TrainSettings(steps=3, prompts_per_step=8, group_size=16, learning_rate=3e-3)


def sample(mesh=None, seed=0):
    parameters, prompts = POLICY.init(jax.random.key(1)), TASK.prompts(np.arange(8) % 4)
    parameters = jax.tree.map(lambda leaf: 1.5 * leaf, parameters)
    if mesh is not None:
        prompts = shard_prompts(prompts, mesh)
    return parameters, sample_groups(TASK, POLICY, parameters, prompts, jax.random.key(seed), 6, top_tokens=3)


def test_the_words_of_the_environment_are_read_and_not_weighed():
    parameters, sampled = sample()
    assert (np.asarray(sampled.token_mask) == [True, False, False, True]).all()
    assert (np.asarray(sampled.dictated) == [False, True, True, False]).all()
    assert sampled.written.all()
    assert not sampled.truncated.any()
    tokens = np.asarray(sampled.tokens)
    assert (tokens[..., 1] == RESULT).all()
    np.testing.assert_array_equal(tokens[..., 2], sampled.final_state["result"])
    np.testing.assert_array_equal(sampled.observations[..., 1:], tokens[..., :-1])
    for silent in (sampled.behaviour_log_probs, sampled.behaviour_entropy, sampled.top_log_probs, sampled.top_tokens):
        assert not np.asarray(silent)[:, :, 1:3].any()
    scores = POLICY.score(parameters, sampled, 1.0)
    np.testing.assert_allclose(scores.log_probs, sampled.behaviour_log_probs, atol=1e-5)
    np.testing.assert_allclose(scores.entropy, sampled.behaviour_entropy, atol=1e-5)


def test_what_an_environment_samples_depends_on_key_prompt_and_member_and_not_on_the_devices():
    _, alone = sample()
    results = np.asarray(alone.final_state["result"])
    assert set(results.ravel()) == {FIRST_RESULT + number for number in range(RESULTS)}
    # A second group of the same prompt has further members.
    np.testing.assert_array_equal(alone.final_state["member"], np.repeat([np.arange(6), np.arange(6, 12)], 4, axis=0))
    assert (results[0] != results[4]).any()
    assert (results != np.asarray(sample(seed=1)[1].final_state["result"])).any()
    # Neither the other prompts of the batch nor the size of the group matter.
    prompts, parameters = TASK.prompts(np.array([3, 1])), POLICY.init(jax.random.key(1))
    fewer = sample_groups(TASK, POLICY, parameters, prompts, jax.random.key(0), 4)
    np.testing.assert_array_equal(fewer.final_state["result"], results[[3, 1], :4])
    mesh = make_mesh("data:8")
    with jax.set_mesh(mesh):
        _, together = sample(mesh)
    np.testing.assert_array_equal(together.tokens, alone.tokens)


@pytest.mark.slow
def test_eight_devices_train_as_one_does():
    trainer = Trainer(TASK, POLICY, objectives.make("grpo"), SETTINGS)
    for alone, together in zip(*(records_of(trainer, mesh=mesh) for mesh in ("replica:8", "data:8")), strict=True):
        for name in alone:
            np.testing.assert_allclose(together[name], alone[name], rtol=1e-4, atol=1e-5, err_msg=name)
        assert alone["length"] == 2.0
        assert alone["sampler_scorer_difference"] < 1e-5


def test_objectives_with_a_backward_policy_are_refused():
    class Forced(Bandit):
        def dictated(self, state):
            return jnp.where(state == 0, 0, -1)

    bandit = Forced((1.0, 0.0))
    policy = Tabular(bandit.num_observations, bandit.vocabulary_size)
    check_run(bandit, policy, objectives.make("grpo"), SETTINGS)
    with pytest.raises(ValueError, match="has no probability for the tokens that an environment dictates"):
        check_run(bandit, policy, objectives.make("trajectory_balance"), SETTINGS)


@dataclasses.dataclass(frozen=True)
class PaidQueries(LookUp):
    """Even queries earn one half, and the answer the other half."""

    optional_fields: ClassVar[frozenset[str]] = frozenset({"step_rewards"})

    def verify(self, trajectories):
        outcomes = super().verify(trajectories)
        paid = jnp.zeros(trajectories.tokens.shape).at[..., 0].set(0.5 * (outcomes.outcome_id % 2 == 0))
        paid = paid.at[..., 3].set(0.5 * outcomes.rewards)
        return Outcomes(paid.sum(axis=-1), outcomes.outcome_id, step_rewards=paid)


def test_a_turn_is_judged_by_what_is_earned_from_it_on():
    _, sampled = sample()
    outcomes = PaidQueries().verify(sampled)
    rollouts = Rollouts.of(sampled, outcomes)
    values = jnp.broadcast_to(outcomes.rewards[..., None], sampled.tokens.shape)
    earned = np.asarray(outcomes.step_rewards, np.float64)
    assert len(np.unique(earned.sum(axis=-1))) == 3
    for gamma in (1.0, 0.5):
        returns = ReturnToGo(gamma, by_turn=True)(values, rollouts)
        query = earned[..., 0] + gamma**3 * earned[..., 3]
        np.testing.assert_allclose(returns[..., 0], query, atol=1e-6)
        np.testing.assert_allclose(returns[..., 3], earned[..., 3], atol=1e-6)
    # What is not paid anywhere, such as a shaped reward, comes at the last token.
    np.testing.assert_allclose(ReturnToGo(0.5, by_turn=True)(values + 1.0, rollouts)[..., 0], query + 0.125, atol=1e-6)


def test_rewards_by_turn_are_required_where_they_are_read():
    objective = objectives.make("reinforce_plus_plus(by_turn=True)")
    with pytest.raises(ValueError, match="the objective needs step_rewards, which this environment and policy do not"):
        check_run(TASK, POLICY, objective, SETTINGS)
    with (
        jax.set_mesh(make_mesh("replica:8")),
        pytest.raises(ValueError, match="a reward of the whole answer replaces them"),
    ):
        Trainer(PaidQueries(), POLICY, objective, SETTINGS).init(0, reward=NoisyVerifier())
