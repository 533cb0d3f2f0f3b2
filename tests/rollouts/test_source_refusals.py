"""Refusals of sources, rewards and environments: one sentence, before the first step if possible."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.graphs.bandit import Bandit, VectorBandit
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.rewards import FormulaReward, MatchedOutcomes, NoisyVerifier, RewardTable
from ipsrl.rollouts.sources.critics import FirstMistake, Own, RightOrWrong, ScriptedCritic, Shuffled, TrueAnswer
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.greedy_answers import GreedyAnswers
from ipsrl.rollouts.sources.one_step_ahead import OneStepAhead
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers, SecondAttempt
from ipsrl.rollouts.sources.replay import ReplayedAnswers, ReplayedGroups
from ipsrl.rollouts.sources.source import Actors, Request, Sampled, Wrapper, wrapped
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer
from tests.look_up import LookUp

BANDIT = Bandit(((1.0, 0.0, 0.5),) * 4)
ON_BANDIT = Tabular(BANDIT.num_observations, BANDIT.vocabulary_size)
TEXT = HypospaceCausal(2)
ON_TEXT = Transformer(TEXT.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=2)
STORED = StoredGroups.of(TEXT, ON_TEXT, 1, [{"prompt": 0, "answers": [TEXT.render(0), TEXT.render(1)]}])
SAMPLED = Sampled(BANDIT, ON_BANDIT, 4, 3)
ON_HOST = Sampled(TEXT, ON_TEXT, 4, 3)
SETTINGS = TrainSettings(2, 4, 3)


@pytest.mark.parametrize(
    ("source", "wrappers", "message"),
    [
        (
            SAMPLED,
            [OneStepAhead()],
            r"OneStepAhead \(--async_rollouts\) hides verifying on the host, but this environment",
        ),
        (dataclasses.replace(SAMPLED, group_size=1), [DynamicSampling()], "group_size is 1, it must be at least 2"),
        (SAMPLED, [OffPolicyAnswers(refine=SecondAttempt())], "that quotes the first, which Bandit does not write"),
        (SAMPLED, [OneStepAhead(), DynamicSampling()], "samples before rewards are known, so DynamicSampling cannot"),
        (ON_HOST, [DynamicSampling(), OneStepAhead()], "DynamicSampling chooses what is sampled, but OneStepAhead ins"),
        (
            SAMPLED,
            [DynamicSampling(), DynamicSampling()],
            "DynamicSampling is inside DynamicSampling: give each wrapper",
        ),
        (SAMPLED, [DifficultyFilter(), DynamicSampling()], "DifficultyFilter chooses the prompts, so DynamicSampling"),
        (SAMPLED, [DifficultyFilter(), ReplayedGroups()], "DifficultyFilter chooses what is sampled, but ReplayedGr"),
        (STORED, [DynamicSampling()], "DynamicSampling needs a source that samples, but StoredGroups inside it does"),
        (STORED, [ReplayedGroups(), OffPolicyAnswers()], "OffPolicyAnswers needs a source that samples, but Stored"),
        (STORED, [GreedyAnswers()], "GreedyAnswers needs a source that samples, but StoredGroups inside it does"),
        (STORED, [ReplayedAnswers()], "ReplayedAnswers needs a source that samples, but StoredGroups inside it does"),
        (STORED, [OneStepAhead()], "samples before rewards are known, so StoredGroups cannot be inside it"),
    ],
)
def test_wrappers_in_an_impossible_order(source, wrappers, message):
    with pytest.raises(ValueError, match=message):
        wrapped(source, wrappers)


def start(environment, policy, objective="grpo", source=None, reward=None, **changes):
    if source is STORED:
        changes = {"prompts_per_step": 1, "group_size": 2} | changes
    trainer = Trainer(environment, policy, objectives.make(objective), dataclasses.replace(SETTINGS, **changes), source)
    with jax.set_mesh(make_mesh("replica:-1")):
        trainer.check()
        return trainer.step(trainer.init(0, reward=reward))


@pytest.mark.parametrize("source", [STORED, wrapped(SAMPLED, [ReplayedGroups()])])
def test_an_objective_without_importance_ratio_on_groups_of_others(source):
    where = (TEXT, ON_TEXT) if source is STORED else (BANDIT, ON_BANDIT)
    with pytest.raises(ValueError, match="gives groups of other policies than the one that learns, and this objective"):
        start(*where, "reinforce", source)


def test_objectives_that_need_what_stored_answers_do_not_have():
    with pytest.raises(ValueError, match="the objective needs the policy's most likely tokens, which answers that it"):
        start(TEXT, ON_TEXT, "lp_reg(likeliest=3)", STORED)
    with pytest.raises(ValueError, match="the objective needs off-policy answers in its groups"):
        start(TEXT, ON_TEXT, "critique_grpo", STORED)


@pytest.mark.parametrize(
    ("source", "changes", "message"),
    [
        (STORED, {"group_size": 3}, "group_size of the source is 2, but that of the settings is 3"),
        (SAMPLED, {"temperature": 0.5}, "temperature of the source is 1.0, but that of the settings is 0.5"),
        (SAMPLED, {"prompts_per_step": 8}, "prompts_per_step of the source is 4, but that of the settings is 8"),
        (
            SAMPLED,
            {"wrappers": (DynamicSampling(),)},
            "the settings ask for DynamicSampling, but a source is given",
        ),
        (dataclasses.replace(SAMPLED, environment=Bandit()), {}, "the source has another environment than the run"),
        (DynamicSampling(), {}, "DynamicSampling wraps no source: give wrapped"),
    ],
)
def test_a_source_that_the_settings_contradict(source, changes, message):
    where = (TEXT, ON_TEXT) if source is STORED else (BANDIT, ON_BANDIT)
    with pytest.raises(ValueError, match=message):
        start(*where, source=source, **changes)


def test_a_source_may_ask_the_reference():
    _, metrics = start(BANDIT, ON_BANDIT, source=wrapped(SAMPLED, [OffPolicyAnswers(2, "reference")]))
    assert np.isfinite(metrics["off_policy_reward"])


def test_stored_answers_do_not_say_what_an_environment_wrote():
    task = LookUp()
    policy = Transformer(task.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=2)
    with pytest.raises(ValueError, match="the environment writes tokens of its own, and stored answers do not say"):
        StoredGroups.of(task, policy, 1, [{"prompt": 0, "answers": [[2, 1, 10, 10]]}])


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (NoisyVerifier(np.full(3, 0.1)), r"false_positive_rate must have the shape \[4\], not \[3\]"),
        (MatchedOutcomes(jnp.full((4, 3), 0.5), jnp.ones((4, 3))), "the probabilities of expert must add up to 1, not"),
        (MatchedOutcomes(np.eye(3)[[0, 1, 2, 0]], jnp.ones((4, 3)), -1.0), "rate must be positive and finite, not -1"),
        (NoisyVerifier(verifier=RewardTable(jnp.ones((3,)))), r"rewards must have the shape \[4, 3\], not \[3\]"),
        (MatchedOutcomes(jnp.ones((4, 3)), jnp.ones((1, 3))), r"weights of matched outcomes must have the shape"),
        (FormulaReward(lambda answers, outcomes: jnp.ones(4)), r"the rewards must have the shape \[4, 3\], not \[4\]"),
    ],
)
def test_rewards_that_do_not_fit(reward, message):
    with pytest.raises(ValueError, match=message):
        start(BANDIT, ON_BANDIT, reward=reward)


class FlatRewards(Bandit):
    def verify(self, trajectories):
        outcomes = super().verify(trajectories)
        return dataclasses.replace(outcomes, rewards=outcomes.rewards[..., None])


class UnknownWord(LookUp):
    def dictated(self, state):
        return jnp.where(super().dictated(state) >= 0, self.vocabulary_size + 4, -1)

    def verify(self, trajectories):
        outcomes = super().verify(trajectories)
        return dataclasses.replace(outcomes, reward_parts=outcomes.rewards[..., None])


def test_environments_that_break_their_word():
    with pytest.raises(ValueError, match=r"the environment's rewards must have the shape \[4, 3\], not \[4, 3, 1\]"):
        start(FlatRewards(BANDIT.rewards), ON_BANDIT)
    task = UnknownWord()
    policy = Transformer(task.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=2)
    with pytest.raises(
        ValueError, match="the environment dictates the token 18, which is outside its vocabulary, 0 to"
    ):
        start(task, policy)
    actors, source = Actors(policy.init(jax.random.key(0))), Sampled(task, policy, 4, 3)
    _, (_, outcomes), _ = jax.jit(lambda: source(None, actors, Request(0, 0)))()
    assert np.isnan(outcomes.rewards).all()
    assert np.isnan(outcomes.reward_parts).all()


def test_one_reward_does_not_replace_several():
    bandit, policy = VectorBandit(), Tabular(1, 2)
    start(bandit, policy, "gdpo")
    with pytest.raises(ValueError, match=r"reads several rewards of each answer, .*: leave out `reward`"):
        start(bandit, policy, "gdpo", reward=RewardTable(jnp.ones((1, 2))))
    # Without such an objective they are lost with the environment's own reward.
    start(bandit, policy, "grpo", reward=RewardTable(jnp.ones((1, 2))))


def test_what_stored_outcomes_leave_out():
    """Rewards and outcomes are given, so nobody verifies, and nobody says which tokens are plans."""
    row = {"prompt": 0, "answers": [TEXT.render(0), TEXT.render(1)], "rewards": [1, 0]}
    size = {"prompts_per_step": 1, "group_size": 2}
    start(TEXT, ON_TEXT, "hicra", StoredGroups.of(TEXT, ON_TEXT, 1, [row]), **size)
    with pytest.raises(ValueError, match="needs planning_mask"):
        start(TEXT, ON_TEXT, "hicra", StoredGroups.of(TEXT, ON_TEXT, 1, [row | {"outcomes": [0, 1]}]), **size)


@dataclasses.dataclass(frozen=True)
class Says(ScriptedCritic):
    """Words, or words about long attempts alone."""

    said: Any
    otherwise: Any = None

    def words(self, environment, prompt, attempt):
        return self.otherwise if self.otherwise is not None and len(attempt) > 1 else self.said


SILENT = r"critic Says\(said=.*\) says nothing about the attempt \[.*\] at prompt \d+: it must say at least one token"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((99,), "what the critic says has the token 99, but the vocabulary is 0 to"),
        ("no", "what the critic says must be a list of tokens, not 'no'"),
        (None, "what the critic says must be a list of tokens, not None"),
        ((), SILENT),
    ],
)
def test_critics_that_say_what_is_no_token(words, message):
    with pytest.raises(ValueError, match=message):
        wrapped(ON_HOST, [OffPolicyAnswers(2, refine=SecondAttempt(Says(words)))])


def test_a_critic_that_falls_silent_on_the_way():
    with pytest.raises(ValueError, match=SILENT):
        start(TEXT, ON_TEXT, source=wrapped(ON_HOST, [OffPolicyAnswers(2, refine=SecondAttempt(Says((1,), ())))]))


@pytest.mark.parametrize(
    ("critic", "message"),
    [
        (
            FirstMistake(),
            "knows the mistakes of Addition and Countdown alone, not those of HypospaceCausal",
        ),
        (Shuffled(RightOrWrong()), "RightOrWrong knows the mistakes of Addition and Countdown alone, not those of"),
        (Shuffled(Shuffled(Own())), "Shuffled needs a critic that is not shuffled, such as"),
        (Shuffled(lambda prompt: ()), "Shuffled needs a critic that is not shuffled, such as"),
        (lambda prompt: (), r"critic is <function .*>, it must be a Critic or None"),
    ],
)
def test_critics_that_cannot_speak(critic, message):
    with pytest.raises(ValueError, match=message):
        wrapped(ON_HOST, [OffPolicyAnswers(2, refine=SecondAttempt(critic))])


def test_a_batch_without_another_prompt():
    refine = OffPolicyAnswers(2, refine=SecondAttempt(Shuffled(Own())))
    with pytest.raises(ValueError, match="words about another prompt, but a batch has 1: take at least 2"):
        wrapped(dataclasses.replace(ON_HOST, prompts_per_step=1), [refine])


def test_true_answers_that_are_not_known():
    class Dumb(HypospaceCausal):
        @property
        def admissible(self):
            return np.zeros((1, 5), bool)

    refine = OffPolicyAnswers(2, refine=SecondAttempt(TrueAnswer()))
    with pytest.raises(ValueError, match="prompt 0 has no right answer that could be said"):
        wrapped(dataclasses.replace(ON_HOST, environment=Dumb(2)), [refine])


def broken_rows():
    yield {"prompt": 0, "answers": [[0]]}
    raise KeyError("answers")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (broken_rows(), "row 2 cannot be read: KeyError: 'answers'"),
        (
            [{"prompt": 0, "answers": [[0], [1]], "rewards": [1e39, 0.0]}],
            "rewards must hold numbers that are 0",
        ),
        ([{"prompt": 0, "answers": [[0]], "log_probs": [[-1e39]]}], "log_probs must hold finite numbers"),
    ],
)
def test_stored_groups_that_cannot_be_read(rows, message):
    with pytest.raises(ValueError, match=message):
        StoredGroups.of(TEXT, ON_TEXT, 1, rows)


@pytest.mark.parametrize("table", [[[1e39, 0.0]], ((0.0, -1e16),), np.array([[1e39, 0.0]]), [[1e-20, 1.0]]])
def test_a_table_of_rewards_does_not_become_infinite(table):
    with pytest.raises(ValueError, match=r"the table of rewards must be finite, and 0 or of a size"):
        RewardTable(table)


def test_a_wrapper_without_a_change_is_refused_when_it_is_put_around_a_source():
    @dataclasses.dataclass(frozen=True)
    class Idle(Wrapper):
        pass

    with pytest.raises(TypeError, match="Idle must have `change`, or a `__call__` of its own"):
        Idle().around(None)
