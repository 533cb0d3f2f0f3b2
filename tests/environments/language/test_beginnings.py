import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from tests.environments.language.asked_tasks import BOOLEAN, Remainders, asked, decoded, texts_of
from tests.environments.language.tokenizers_for_tests import ids, save_tokenizer

pytestmark = pytest.mark.core


@dataclasses.dataclass(frozen=True)
class Begun(HypospaceBoolean):
    """A task whose second prompt begins the answer."""

    def beginning(self, prompt):
        return "I say" if prompt == 1 else ""


BEGUN = Begun("basic", 1, observations=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer"), texts_of(BOOLEAN))


def test_the_turn_of_the_model_begins_with_given_words(folder):
    environment = asked(folder, BEGUN)
    plain, begun = environment.prompts(np.array([0, 1])).tokens
    assert decoded(environment, environment.prompts(np.array([0]))) == decoded(
        asked(folder), asked(folder).prompts([0])
    )
    text, question = decoded(environment, environment.prompts(np.array([0, 1])), 1)
    assert question == BEGUN.prompt_text(1)
    assert text == f"<bos><turn>user\n{question}<end>\n<turn>model\nI say"
    state = environment.reset(jax.random.key(0), jnp.int32(1), jnp.int32(0))
    assert environment.observe(state) == begun[-1] != plain[-1]
    assert environment.question_text(0) == BEGUN.prompt_text(0).strip()
    assert environment.question_text(1) == f"{question}\nI say"
    assert environment.render(2)[:-1] == ids(environment.tokenizer, f" {BEGUN.answer_text(2)}")
    # Words for all prompts take the place of the task's; behind a line break no space is missing.
    other = asked(folder, BEGUN, beginning="So:\n", thinking=True)
    for prompt in (0, 1):
        assert decoded(other, other.prompts(np.array([prompt])))[0].endswith("<turn>model\n<think>So:\n")
    # They are part of a thought, which an answer closes.
    assert other.tokenizer.decode(other.render(2)) == f"</think>\n\n{BEGUN.answer_text(2)}<eos>"
    other = asked(folder, BEGUN, beginning="So:\n")
    assert other.render(2) == asked(folder).render(2)


def test_the_question_is_marked_even_if_the_beginning_repeats_it(folder):
    question = BOOLEAN.prompt_text(1)
    environment = asked(folder, beginning=f"{question} Well,", longest_prompt=3000)
    prompts = environment.prompts(np.array([1]))
    text, marked = decoded(environment, prompts)
    assert text.count(question) == 2
    assert marked == question
    assert not prompts.question_mask[0, -prompts.mask[0].sum() // 3 :].any()


def test_histories_and_critics_precede_the_beginning_of_the_answer(folder, tmp_path):
    bare = save_tokenizer(tmp_path, texts_of(BOOLEAN), template=None)
    for where in (folder, bare):
        environment = asked(where, beginning="I say")
        before, after = ("<turn>user\n", "<end>\n<turn>model\n") if where is folder else ("", "\n")
        said = ids(environment.tokenizer, " no")
        for prompts, question in (
            (environment.prompts_with_history([1], [[said]]), BOOLEAN.prompt_text(1, [" no"]).strip()),
            (
                environment.prompts_with_critique([1], [(said, [])]),
                f"{BOOLEAN.prompt_text(1).strip()}\n\nYour earlier answer:\n no\n\nAnswer the question again.",
            ),
        ):
            text, marked = decoded(environment, prompts)
            assert (text, marked) == (f"<bos>{before}{question}{after}I say", question)
        alone = environment.prompts_with_history([1], [[]])
        np.testing.assert_array_equal(alone.tokens, environment.prompts(np.array([1])).tokens)


@pytest.mark.parametrize("system_prompt", ["", "Be brief."])
def test_without_a_template_a_model_completes_the_beginning_alone(tmp_path, system_prompt):
    environment = asked(save_tokenizer(tmp_path, texts_of(BEGUN), template=None), BEGUN, system_prompt=system_prompt)
    before = f"<bos>{system_prompt}\n\n" if system_prompt else "<bos>"
    prompts = environment.prompts(np.arange(2))
    assert decoded(environment, prompts, 1) == [f"{before}I say", "I say"]
    assert environment.question_text(1) == "I say"
    question = BEGUN.prompt_text(0).strip()
    assert decoded(environment, prompts) == [f"{before}{question}\n", question]


def test_without_a_template_prompts_that_quote_must_end_as_all_do(tmp_path):
    merging = save_tokenizer(tmp_path, [f"{letter}.\n" for letter in "abcdefgh"], template=None, by_words=False)
    bare = asked(merging, Remainders())
    assert len(ids(bare.tokenizer, ".\n")) == 1
    said = ids(bare.tokenizer, "1")
    np.testing.assert_array_equal(bare.prompts_with_history([1], [[]]).tokens[0], bare.prompt_table.tokens[1])
    for quoting in (
        lambda task: task.prompts_with_history([0, 1], [[], [said]]),
        lambda task: task.prompts_with_critique([1], [(said, said)]),
        lambda task: task.prompts_for_critique([1], [said]),
    ):
        with pytest.raises(ValueError, match=r"prompt 1 ends with another token when it quotes .* set a beginning"):
            quoting(bare)
        begun = asked(merging, Remainders(), beginning="It is")
        assert quoting(begun).tokens[-1, -1] == begun.prompt_table.tokens[1, -1]
