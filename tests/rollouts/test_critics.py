"""Critics of whole batches: what is quoted, placebos, and what the policy says about itself."""

import itertools

import jax
import numpy as np
import pytest

from ipsrl.environments import critiques
from ipsrl.environments.tasks.addition import Addition
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.text import ANSWER, BEGIN, EARLIER, STOP
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts import tools
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources import critics
from ipsrl.rollouts.sources.critics import ScriptedCritic, Shuffled
from ipsrl.rollouts.sources.source import Actors, Request, Sampled, wrapped
from ipsrl.training.settings import make_batch_filters
from tests.environments.reading.answers import trajectories_of

SUM = Addition(digits=1, problems=16, spellings=("plain",))
REACHED = Countdown(numbers=2, problems=8, largest_number=9, largest_target=30, least_solutions=1)
P, G, ANSWERS, KEY = 4, 3, 5, jax.random.key(0)


def sampled_from(task, prompts_per_step=P):
    policy = Transformer(task.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=1)
    return Sampled(task, policy, prompts_per_step, G)


@pytest.fixture
def calls(monkeypatch):
    """Prompts and trajectories of each call of the sampler."""
    seen = []

    def sample(environment, policy, parameters, prompts, *others):
        trajectories = sample_groups(environment, policy, parameters, prompts, *others)
        seen.append((jax.device_get(prompts), jax.device_get(trajectories)))
        return trajectories

    monkeypatch.setattr(tools, "sample_groups", sample)
    return seen


def groups_of(task, critic):
    """The groups and metrics of a step with a critic."""
    sampled = sampled_from(task)
    filters = make_batch_filters(f"off_policy(answers={ANSWERS}, refine=second_attempt(critic={critic}))")
    source, actors = wrapped(sampled, filters), Actors(sampled.policy.init(jax.random.key(1)))
    _, groups, metrics = source(source.init(actors, 0, None), actors, Request(0, 0))
    return groups, {name: float(total) for name, (total, _) in metrics.items()}


def quoted(prompts, task):
    """For each prompt the tokens behind its question: the quotations, as lists."""
    for index, row in zip(prompts.index, prompts.tokens, strict=True):
        question = [BEGIN, *(task.vocabulary.index(symbol) for symbol in task.observation_symbols(task.asked[index]))]
        shown = row[row.tolist().index(BEGIN) :].tolist()
        assert shown[: len(question)] == question
        assert shown[-1] == ANSWER
        yield int(index), shown[len(question) : -1]


def answers_in(trajectories):
    return [
        (int(index), answer[mask].tolist())
        for index, group, masks in zip(
            trajectories.prompts.index, trajectories.tokens, trajectories.token_mask, strict=True
        )
        for answer, mask in zip(group, masks, strict=True)
    ]


def in_turn(attempts):
    """The attempts that are refined, of which the first two of a group are refined twice."""
    return [attempts[G * row + place % G] for row in range(P) for place in range(ANSWERS)]


def before_stop(answer):
    return answer[: answer.index(STOP)] if STOP in answer else answer


@pytest.mark.parametrize("task", [SUM, REACHED], ids=["addition", "countdown"])
@pytest.mark.parametrize("critic", ["first_mistake", "right_or_wrong", "true_answer"])
def test_each_attempt_is_quoted_with_the_words_about_it(calls, task, critic):
    _, metrics = groups_of(task, critic)
    (_, attempts), (prompts, refinements) = calls
    expected = []
    for index, attempt in in_turn(answers_in(attempts)):
        words = (
            critiques.true_answer(task, index)
            if critic == "true_answer"
            else getattr(critiques, critic)(task, index, attempt)
        )
        expected.append((index, [EARLIER, *before_stop(attempt), EARLIER, *words]))
    assert list(quoted(prompts, task)) == expected
    assert metrics["tokens_sampled"] == attempts.token_mask.sum() + refinements.token_mask.sum()


def test_the_policy_is_its_own_critic(calls):
    groups_of(SUM, "own")
    again, metrics = groups_of(SUM, "own")
    (_, attempts), (asked, critique), (prompts, refinements) = calls[3:]
    chosen = in_turn(answers_in(attempts))
    beginnings = [(index, [EARLIER, *before_stop(attempt), EARLIER]) for index, attempt in chosen]
    assert list(quoted(asked, SUM)) == beginnings
    said = [before_stop(words) for _, words in answers_in(critique)]
    assert any(said)
    # Nothing said is nothing quoted.
    expected = [
        (index, [*beginning, *words] if words else beginning[:-1])
        for (index, beginning), words in zip(beginnings, said, strict=True)
    ]
    assert list(quoted(prompts, SUM)) == expected
    for (_, first), (_, second) in zip(calls[:3], calls[3:], strict=True):
        np.testing.assert_array_equal(first.tokens, second.tokens)
    assert metrics["tokens_sampled"] == sum(part.token_mask.sum() for part in (attempts, critique, refinements))
    assert metrics["trajectories_sampled"] == P * (G + ANSWERS)
    assert np.asarray(again[0].off_policy)[:, 0].all()


class Names(ScriptedCritic):
    """Says the prompt and the last token of an attempt."""

    def words(self, environment, prompt, attempt):
        return [prompt, attempt[-1]]


def attempts_at(index):
    """Answers whose last tokens number all attempts of a batch."""
    answers = [[[5, 6 + G * row + member] for member in range(G)] for row in range(len(index))]
    return trajectories_of(SUM, index, answers), None


@pytest.mark.parametrize("index", [[3, 1, 2, 0], [3, 1], [1, 2, 1, 5], [4, 4, 7, 4, 7, 7]])
def test_shuffled_words_are_about_other_prompts(index):
    attempts, seen = attempts_at(index), set()
    own, _ = Names()(sampled_from(SUM), None, attempts, KEY)
    for seed in range(40):
        words, spent = Shuffled(Names())(sampled_from(SUM), None, attempts, jax.random.key(seed))
        assert spent == 0
        assert [len(group) for group in words] == [G] * len(index)
        assert sorted(itertools.chain(*words)) == sorted(itertools.chain(*own))
        for prompt, group in zip(index, words, strict=True):
            assert prompt not in {about for about, _ in group}
        again, _ = Shuffled(Names())(sampled_from(SUM), None, attempts, jax.random.key(seed))
        assert again == words
        seen.add(str(words))
    assert len(seen) > (30 if len(set(index)) > 2 else 4)


@pytest.mark.parametrize("prompts", [[0, 0, 0], [5, 5], [0, 0, 0, 1, 2], [1] * 7 + [0] * 2])
def test_where_one_prompt_prevails_no_attempt_gets_its_own_words(prompts):
    for seed in range(20):
        source = critics.other_prompts(np.array(prompts), np.random.default_rng(seed))
        assert sorted(source) == list(range(len(prompts)))
        assert (source != np.arange(len(prompts))).all()
    np.testing.assert_array_equal(critics.other_prompts(np.array([3]), np.random.default_rng(0)), [0])


def test_words_go_to_each_other_prompt_equally_often():
    prompts, counts = np.repeat(np.arange(4), 2), np.zeros((4, 4))
    for seed in range(3000):
        source = critics.other_prompts(prompts, np.random.default_rng(seed))
        np.add.at(counts, (prompts, prompts[source]), 1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, (1 - np.eye(4)) / 3, atol=0.03)


def test_shuffled_words_in_a_run(calls):
    groups_of(SUM, "shuffled(true_answer)")
    groups_of(SUM, "true_answer")
    (_, attempts), (shuffled, _), _, (plain, _) = calls

    def words(prompts):
        pairs = zip(quoted(prompts, SUM), in_turn(answers_in(attempts)), strict=True)
        return [tuple(shown[len(before_stop(attempt)) + 2 :]) for (_, shown), (_, attempt) in pairs]

    assert sorted(words(shuffled)) == sorted(words(plain))
    assert words(shuffled) != words(plain)


def test_long_words_are_cut_to_an_answer():
    class Talks(ScriptedCritic):
        def words(self, environment, prompt, attempt):
            return [7] * 99

    words, _ = Talks()(sampled_from(SUM), None, attempts_at([0, 1]), KEY)
    assert words == [[[7] * SUM.max_tokens] * G] * 2
