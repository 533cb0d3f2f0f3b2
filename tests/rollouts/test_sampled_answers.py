"""The two protocols of asking: answers that know nothing of each other, and answers that see the earlier ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.text import ANSWER, EARLIER, PADDING, STOP
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts import sampled_answers, tools
from ipsrl.rollouts.decoding import Decoding
from ipsrl.rollouts.sampled_answers import answers_with_history, completions, independent_answers, transcript

TASK = HypospaceBoolean("basic", depth=1, observations=2)
POLICY = Tabular(TASK.num_observations, TASK.vocabulary_size)
X, Y, AND = (TASK.vocabulary.index(symbol) for symbol in ("x", "y", "AND"))
ANSWERS = 4


def parameters_that_often_answer():
    """`x`, `y` or `AND`, which alone does not parse; then the end."""
    logits = jnp.full((TASK.num_observations, TASK.vocabulary_size), -1e9)
    return {"logits": logits.at[ANSWER, jnp.array([X, Y, AND])].set(0.0).at[jnp.array([X, Y, AND]), STOP].set(0.0)}


@pytest.fixture
def batches(monkeypatch):
    """Every batch of trajectories that the protocol asked for."""
    batches = []
    sample = tools.sample_groups

    def spy(*arguments):
        batches.append(sample(*arguments))
        return batches[-1]

    monkeypatch.setattr(tools, "sample_groups", spy)
    return batches


def test_independent_answers_all_see_the_plain_prompt(batches):
    asked = independent_answers(TASK, POLICY, parameters_that_often_answer(), jax.random.key(0), ANSWERS)
    outcomes = asked.outcomes
    assert outcomes.rewards.shape == outcomes.outcome_id.shape == (TASK.num_prompts, ANSWERS)
    (batch,) = batches
    np.testing.assert_array_equal(batch.prompts.tokens, TASK.prompt_table.tokens)
    assert EARLIER not in TASK.prompt_table.tokens
    expected = TASK.verify(jax.device_get(batch))
    np.testing.assert_array_equal(outcomes.outcome_id, expected.outcome_id)
    np.testing.assert_array_equal(outcomes.rewards, expected.rewards)
    np.testing.assert_array_equal(asked.tokens, batch.tokens)
    np.testing.assert_array_equal(asked.written, batch.written)
    # Both readable answers and the unreadable one occur, and answers to a prompt differ.
    assert set(np.unique(outcomes.outcome_id)) == {-1, TASK.parse([X, STOP]), TASK.parse([Y, STOP])}
    assert (outcomes.outcome_id != outcomes.outcome_id[:, :1]).any()


def test_with_history_each_query_lists_the_earlier_answers_that_parsed(batches):
    asked = answers_with_history(TASK, POLICY, parameters_that_often_answer(), jax.random.key(0), ANSWERS)
    outcomes = asked.outcomes
    assert outcomes.rewards.shape == outcomes.outcome_id.shape == (TASK.num_prompts, ANSWERS)
    assert len(batches) == ANSWERS
    assert len({batch.prompts.tokens.shape for batch in batches}) == 1

    histories = [[] for _ in range(TASK.num_prompts)]
    for query, batch in enumerate(batches):
        assert batch.tokens.shape == (TASK.num_prompts, 1, TASK.max_tokens)
        for prompt, history in enumerate(histories):
            shown = [token for token in np.asarray(batch.prompts.tokens[prompt]).tolist() if token != PADDING]
            earlier = [token for answer in history for token in (EARLIER, answer)]
            assert shown == [*TASK.prompt_tokens(prompt)[:-1], *earlier, ANSWER]
            answer = int(batch.tokens[prompt, 0, 0])
            assert outcomes.outcome_id[prompt, query] == TASK.parse([answer, STOP])
            if answer != AND:
                history.append(answer)
    np.testing.assert_array_equal(asked.tokens, np.concatenate([batch.tokens for batch in batches], axis=1))
    np.testing.assert_array_equal(asked.written, np.concatenate([batch.written for batch in batches], axis=1))
    lengths = [len(history) for history in histories]
    assert min(lengths) < max(lengths) == ANSWERS
    assert (outcomes.outcome_id != outcomes.outcome_id[:, :1]).any()


def test_with_history_some_prompts_at_a_time(batches):
    parameters, key = parameters_that_often_answer(), jax.random.key(0)
    size = TASK.num_prompts - 1
    outcomes = answers_with_history(TASK, POLICY, parameters, key, ANSWERS, prompts_at_once=size).outcomes
    assert outcomes.outcome_id.shape == (TASK.num_prompts, ANSWERS)
    assert {batch.tokens.shape[0] for batch in batches} == {size}
    # The second block asks the last prompt first, and then some of the first again, whose answers nobody wants.
    asked = [batch.prompts.index.tolist() for batch in batches]
    assert asked == [list(range(size))] * ANSWERS + [[size, *range(size - 1)]] * ANSWERS
    for query in range(ANSWERS):
        said = [*batches[query].tokens[:, 0, 0].tolist(), int(batches[ANSWERS + query].tokens[0, 0, 0])]
        assert outcomes.outcome_id[:, query].tolist() == [TASK.parse([answer, STOP]) for answer in said]
    # This policy sees no question: with one key for both, the answers would be the same row by row.
    assert (batches[0].tokens != batches[ANSWERS].tokens).any()


@pytest.mark.parametrize("protocol", [independent_answers, answers_with_history])
def test_the_first_answers_can_be_read(protocol, monkeypatch):
    monkeypatch.setattr(sampled_answers, "SHOWN", 3)
    asked = protocol(TASK, POLICY, parameters_that_often_answer(), jax.random.key(0), ANSWERS)
    assert asked.tokens.shape == (TASK.num_prompts, 3, TASK.max_tokens)
    listed = completions(TASK, asked, TASK.hypotheses)
    assert [completion.prompt_index for completion in listed] == [0] * 3 + [1] * 3 + [2] * 3
    for place, completion in enumerate(listed):
        row, column = divmod(place, 3)
        assert completion.prompt == TASK.question_text(row) != TASK.question_text(row + 1)
        assert completion.reward == asked.outcomes.rewards[row, column]
        # One symbol, which is its own name where it is a hypothesis.
        assert completion.outcome == {"x": "x", "y": "y", "AND": None}[completion.completion]
        answer = [TASK.vocabulary.index(completion.completion), STOP]
        assert TASK.parse(answer) == asked.outcomes.outcome_id[row, column]
    # Outcomes without a name are told apart all the same.
    assert {completion.outcome for completion in completions(TASK, asked, ["x"])} == {"x", "#1", None}


@pytest.mark.parametrize("protocol", [independent_answers, answers_with_history])
def test_the_key_and_the_temperature_decide(protocol):
    parameters = parameters_that_often_answer()
    parameters["logits"] = parameters["logits"].at[ANSWER, X].set(1.0)

    def ask(key, temperature=1.0):
        return protocol(
            TASK, POLICY, parameters, jax.random.key(key), ANSWERS, Decoding(temperature)
        ).outcomes.outcome_id

    np.testing.assert_array_equal(ask(0), ask(0))
    assert (ask(0) != ask(1)).any()
    assert (ask(0, temperature=1e-3) == TASK.parse([X, STOP])).all()


def test_a_dialogue_has_a_line_for_each_turn():
    tokens = np.array([X, X, Y, STOP])
    assert transcript(TASK, tokens, np.zeros(4, bool)) == "x x y"
    dictated = np.array([False, True, True, False])
    assert transcript(TASK, tokens, dictated) == "policy: x\nenvironment: x y\npolicy: "
