import dataclasses
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.language.math_answers import MathAnswers
from ipsrl.environments.language.one_of_many import OneOfMany
from ipsrl.environments.tasks.addition_modes import AdditionModes
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.environments.tasks.hypospace_voxels import HypospaceVoxels
from ipsrl.environments.tasks.long_work import LongWork
from ipsrl.rollouts.prompts import choose_prompts
from tests.environments.language.asked_tasks import BOOLEAN, VOCABULARY, Remainders, asked, decoded, texts_of
from tests.environments.language.tokenizers_for_tests import BOS, END, EOS, TURN, ids, save_tokenizer
from tests.environments.reading.answers import trajectories_of

pytestmark = [pytest.mark.core, pytest.mark.eight_devices]


TASKS = [
    Remainders(),
    BOOLEAN,
    HypospaceCausal(2),
    HypospaceVoxels(2, 2, 1),
    Countdown(numbers=3, problems=4, largest_number=9, largest_target=30, least_solutions=2),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer"), [text for task in TASKS for text in texts_of(task)])


@pytest.fixture(scope="module", params=TASKS, ids=lambda task: type(task).__name__)
def environment(request, folder):
    return asked(folder, request.param)


def test_the_threshold_of_right_answers_is_the_tasks(folder):
    class Graded(HypospaceBoolean):
        right_above = 0.5

    assert asked(folder).right_above == 0
    assert asked(folder, Graded("basic", 1, observations=2)).right_above == 0.5


def test_prompts_are_those_of_the_chat_template(environment):
    prompts = jax.jit(environment.prompts)(jnp.arange(environment.num_prompts))
    tokens, mask = np.asarray(prompts.tokens), np.asarray(prompts.mask)
    assert tokens.shape == (environment.num_prompts, environment.prompt_length)
    assert (tokens.dtype, prompts.index.tolist()) == (np.int32, list(range(environment.num_prompts)))
    assert mask.all(1).any()
    for prompt in range(environment.num_prompts):
        message = {"role": "user", "content": environment.task.prompt_text(prompt)}
        expected = environment.tokenizer.apply_chat_template([message], add_generation_prompt=True)["input_ids"]
        assert tokens[prompt][mask[prompt]].tolist() == expected
        # Padded on the left: the first observation is the last token.
        assert mask[prompt].tolist() == sorted(mask[prompt].tolist())
        first = environment.reset(jax.random.key(0), jnp.int32(prompt), jnp.int32(0))
        assert environment.observe(first) == tokens[prompt, -1]
        question = environment.tokenizer.decode(tokens[prompt][np.asarray(prompts.question_mask[prompt])])
        assert question == environment.task.prompt_text(prompt)


def test_a_step_brings_its_own_prompts_to_the_device_and_no_table(environment):
    index = jnp.array([1, 0])
    inside, outside = jax.jit(environment.prompts)(index), environment.prompts(index)
    jax.tree.map(np.testing.assert_array_equal, inside, outside)
    assert {type(column) for column in jax.tree.leaves(outside)} == {np.ndarray}
    chosen = choose_prompts(environment, 3, 5, 2)
    jax.tree.map(np.testing.assert_array_equal, chosen, environment.prompts(chosen.index))


def test_system_prompt_and_thinking(folder):
    environment = asked(folder, system_prompt="Be brief.", thinking=True)
    text, question = decoded(environment, environment.prompts(jnp.array([1])))
    assert question == BOOLEAN.prompt_text(1)
    assert text == f"<bos><turn>system\nBe brief.<end>\n<turn>user\n{question}<end>\n<turn>model\n<think>"


def test_any_stop_token_ends_an_answer(folder):
    environment = asked(folder)
    assert environment.stop_tokens == (EOS, END)
    state = environment.reset(jax.random.key(0), jnp.int32(0), jnp.int32(0))
    assert not environment.finished(state)
    assert environment.legal(state) is None
    for token, ends in ((5, False), (TURN, False), (EOS, True), (END, True)):
        after = jax.jit(environment.step)(state, jnp.int32(token))
        assert (int(environment.observe(after)), bool(environment.finished(after))) == (token, ends)
        assert environment.finished(environment.step(after, jnp.int32(5))) == ends


def test_answers_are_judged_as_text(environment):
    task, rng = environment.task, np.random.default_rng(0)
    # Some of the prompts, in another order: a host verifies those it holds.
    index = [environment.num_prompts - 1, 1]
    hypotheses = rng.integers(task.num_hypotheses, size=(2, 3)).tolist()
    texts = [[*(task.answer_text(i, rng) for i in group), "no idea", ""] for group in hypotheses]
    tokens = [[ids(environment.tokenizer, text) for text in group] for group in texts]
    # Either stop token, none, one alone; special tokens and tokens of the model alone say nothing.
    ends = [EOS], [END], [], [EOS], [END]
    tokens = [
        [[BOS, VOCABULARY - 1, *answer, *end] for answer, end in zip(group, ends, strict=True)] for group in tokens
    ]
    outcomes = environment.verify(trajectories_of(environment, index, tokens))
    expected = task.verify_texts(index, texts)
    np.testing.assert_array_equal(outcomes.outcome_id, expected.outcome_id)
    np.testing.assert_array_equal(outcomes.rewards, expected.rewards)
    assert outcomes.outcome_id[:, :3].tolist() == hypotheses
    assert (outcomes.outcome_id[:, 3:] == -1).all()
    assert outcomes.planning_mask is None
    np.testing.assert_array_equal(outcomes.rewards[0, :3], task.admissible[index[0], hypotheses[0]])


def test_hypotheses_are_rendered_in_the_tokens_of_the_model(environment):
    assert environment.hypotheses == environment.task.hypotheses
    np.testing.assert_array_equal(environment.admissible, environment.task.admissible)
    np.testing.assert_array_equal(environment.outcome_space(1).rewards, environment.admissible[1])
    rng = np.random.default_rng(0)
    for hypothesis in range(len(environment.hypotheses)):
        tokens = environment.render(hypothesis)
        assert environment.tokenizer.decode(tokens) == f"{environment.task.answer_text(hypothesis)}<eos>"
        answers = [[environment.render(hypothesis, rng), tokens]]
        assert (environment.verify(trajectories_of(environment, [0], answers)).outcome_id == hypothesis).all()


def test_histories_are_shown_as_text(environment):
    task = environment.task
    first, second = environment.render(0, np.random.default_rng(3)), environment.render(1)
    said = ids(environment.tokenizer, "Answer: 1 + 1. Perhaps?")
    width = environment.history_width(3)
    prompts = environment.prompts_with_history([1, 0], [[first, second[:-1], [*said, END]], []], width)
    assert prompts.tokens.shape == (2, width) == (2, environment.longest_prompt)
    # Hypotheses in canonical form, all else in the model's words.
    history = [task.answer_text(0), task.answer_text(1), "Answer: 1 + 1. Perhaps?"]
    _, shown = decoded(environment, prompts)
    assert shown == task.prompt_text(1, history) != task.prompt_text(1)
    plain = environment.prompts(jnp.array([0]))
    np.testing.assert_array_equal(prompts.tokens[1][prompts.mask[1]], plain.tokens[0][plain.mask[0]])
    np.testing.assert_array_equal(prompts.tokens[:, -1], environment.prompt_table.tokens[[1, 0], -1])
    with pytest.raises(ValueError, match="2 prompts need as many histories, got 1"):
        environment.prompts_with_history([1, 0], [[]])
    with pytest.raises(ValueError, match=r"prompt 1 has \d+ tokens, more than the 30 that are allowed"):
        environment.prompts_with_history([1], [[first]], 30)


def test_a_history_is_shown_as_what_it_means_under_its_prompt(tmp_path):
    task = OneOfMany(questions=("coin", "body_part"))
    environment = asked(save_tokenizer(tmp_path, texts_of(task)), task)
    said = ids(environment.tokenizer, "Head.")
    prompts = environment.prompts_with_history([0, 1], [[said], [said]])
    for prompt, word in enumerate(("heads", "head")):
        assert decoded(environment, prompts, prompt)[1] == task.prompt_text(prompt, [word])
    outcomes = environment.verify(trajectories_of(environment, [0, 1], [[said], [said]]))
    assert [task.hypotheses[outcome] for outcome in outcomes.outcome_id[:, 0]] == ["heads", "head"]
    assert outcomes.rewards.tolist() == [[1], [1]]


def test_an_attempt_is_quoted_with_the_words_of_a_critic(environment):
    def tokens(text):
        return ids(environment.tokenizer, text)

    question, (attempt, words) = environment.task.prompt_text(1).strip(), ("Answer: 1 + 1.", "Perhaps?")
    width = environment.history_width(2)
    prompts = environment.prompts_with_critique(
        [1, 1], [(tokens(attempt), tokens(words)), (tokens(attempt), [])], width
    )
    assert prompts.tokens.shape == (2, width)
    quoted = f"{question}\n\nYour earlier answer:\n{attempt}\n\n"
    again = "Answer the question again."
    assert decoded(environment, prompts)[1] == f"{quoted}What a critic says about it:\n{words}\n\n{again}"
    assert decoded(environment, prompts, 1)[1] == f"{quoted}{again}"
    # What does not fit is left out, first the attempt.
    shorter = environment.prompts_with_critique([1], [(tokens(attempt) * 300, tokens(words))], width)
    assert decoded(environment, shorter)[1] == f"{question}\n\nWhat a critic says about it:\n{words}\n\n{again}"
    plain = environment.prompts_with_critique([1], [(tokens(attempt) * 300, tokens(words) * 300)], width)
    assert decoded(environment, plain)[1] == question
    # The model may be asked for the words.
    asked_for = environment.prompts_for_critique([1, 1], [tokens(attempt), tokens(attempt) * 300], width)
    assert asked_for.tokens.shape == (2, width)
    request = "Do not answer again. Say what is wrong with it."
    assert decoded(environment, asked_for)[1] == f"{question}\n\nYour earlier answer:\n{attempt}\n\n{request}"
    assert decoded(environment, asked_for, 1)[1] == question


def test_of_a_long_history_the_latest_answers_are_shown(folder):
    environment = asked(folder, TASKS[3])
    said = [f"Answer: {i} + {i}" for i in range(300)]
    history = [ids(environment.tokenizer, text) for text in said]
    prompts = environment.prompts_with_history([0, 1], [history, history[:1]], 9000)
    length = prompts.mask[0].sum()
    assert environment.longest_prompt - 20 < length <= environment.longest_prompt
    _, shown = decoded(environment, prompts)
    first = next(i for i in range(300) if said[i] + "\n" in shown)
    assert first > 0
    assert shown == environment.task.prompt_text(0, said[first:])
    assert said[0] in decoded(environment, prompts, 1)[1]
    one_more = environment.task.prompt_text(0, said[first - 1 :])
    template = length - prompts.question_mask[0].sum()
    assert len(ids(environment.tokenizer, one_more)) + template > 1500


def test_questions_without_hypotheses(folder, monkeypatch):
    monkeypatch.setattr(MathAnswers, "rows", (("What is 1 + 1?", Fraction(2)), ("What is 2 + 2?", Fraction(4))))
    environment = asked(folder, MathAnswers())
    four = ids(environment.tokenizer, "#### 4")
    outcomes = environment.verify(trajectories_of(environment, [1], [[[*four, EOS], [EOS]]]))
    assert outcomes.rewards.tolist() == [[1, 0]]
    for asking in (lambda: environment.hypotheses, lambda: environment.admissible, lambda: environment.render(0)):
        with pytest.raises(ValueError, match=r"the outcomes of MathAnswers\(.*\) cannot be listed"):
            asking()
    with pytest.raises(ValueError, match="any number can be the answer"):
        environment.outcome_space(0)


def test_what_cannot_be_is_refused_at_once(folder, tmp_path):
    def refused(message, directory=folder, **fields):
        with pytest.raises(ValueError, match=message):
            LanguageTask(BOOLEAN, str(directory), VOCABULARY, **({"longest_prompt": 1500} | fields))

    refused(r"prompt \d+ has \d+ tokens, more than the 50 that are allowed: raise longest_prompt", longest_prompt=50)
    refused(f"there is no folder {tmp_path}/none: give", directory=tmp_path / "none")
    endless = save_tokenizer(tmp_path / "endless", ["x"], eos=None, stops=None)
    refused("neither the tokenizer nor a generation_config.json in .* names an eos token", directory=endless)
    shouting = save_tokenizer(tmp_path / "shouting", ["x"], template="{{ messages[0]['content'] | upper }}")
    refused("the chat template in .*shouting changes the words of prompt 0", directory=shouting, longest_prompt=5000)
    strict = save_tokenizer(
        tmp_path / "strict",
        ["x"],
        template="{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        "{{ messages[0]['content'] }}",
    )
    words = r"strict refuses the prompt \(TemplateError: no system role\)"
    refused(words, directory=strict, system_prompt="Hi", longest_prompt=5000)
    with pytest.raises(ValueError, match=r"has \d+ tokens, more than max_tokens, 2"):
        asked(folder, max_tokens=2).render(0)


def test_a_task_that_forces_modes_or_work_is_refused(folder):
    for free, forced in (
        (AdditionModes(problems=4), {"forced": "think"}),
        (LongWork(problems=4), {"work": 2}),
    ):
        assert asked(folder, free).num_prompts == 4
        with pytest.raises(ValueError, match=f"{type(free).__name__}.* dictates tokens of its own vocabulary"):
            asked(folder, dataclasses.replace(free, **forced))


def test_added_tokens_may_lie_beyond_the_model(tmp_path):
    # Text models of Gemma 3 share a tokenizer that has one more token, for images.
    from transformers import AutoTokenizer

    folder = save_tokenizer(tmp_path, texts_of(BOOLEAN))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    size = len(tokenizer)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    tokenizer.save_pretrained(folder)
    assert LanguageTask(BOOLEAN, folder, size, longest_prompt=1500).tokenizer.convert_tokens_to_ids("<image>") == size
    with pytest.raises(ValueError, match=f"has a token {size}, but the model has only {size}"):
        LanguageTask(BOOLEAN, folder, size, longest_prompt=1500, system_prompt="<image>")
