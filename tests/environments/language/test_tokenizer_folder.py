import json

import pytest
from tokenizers import processors
from transformers import AutoTokenizer

from tests.environments.language.asked_tasks import BOOLEAN, asked
from tests.environments.language.tokenizers_for_tests import BOS, END, EOS, TEMPLATE, TURN, ids, save_tokenizer

NAMES = {"<bos>": BOS, "<eos>": EOS, "<turn>": TURN, "<end>": END}


def saved(folder, added, **changes):
    """A tokenizer that adds these words around texts."""
    folder = save_tokenizer(folder, [BOOLEAN.prompt_text(0)], **changes)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=added, special_tokens=list(NAMES.items())
    )
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("added", "kept"),
    [("$A <eos>", []), ("<bos> $A <eos>", [BOS]), ("<turn> <bos> $A <turn> <end> <eos>", [TURN, BOS]), ("$A", [])],
)
@pytest.mark.parametrize("fields", [{}, {"beginning": "I say"}, {"system_prompt": "Be brief."}], ids=str)
def test_prompts_of_a_base_model_go_on(added, kept, fields, tmp_path):
    environment = asked(saved(tmp_path, added, template=None), **fields)
    answer = ids(environment.tokenizer, "x")
    for prompts in (
        environment.prompts([0]),
        environment.prompts_with_history([0], [[answer]]),
        environment.prompts_with_critique([0], [(answer, answer)]),
        environment.prompts_for_critique([0], [answer]),
    ):
        tokens = prompts.tokens[0][prompts.mask[0]].tolist()
        assert tokens[: len(kept)] == kept
        assert not set(tokens[len(kept) :]) & set(NAMES.values())
        assert environment.tokenizer.decode(tokens).endswith("\n" if "beginning" not in fields else "I say")


def test_a_word_that_ends_answers_may_end_prompts(tmp_path):
    folder = saved(tmp_path, "$A <eos>", template=None)
    [line_end] = AutoTokenizer.from_pretrained(folder)("\n", add_special_tokens=False)["input_ids"][:1]
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [EOS, line_end]}))
    assert asked(folder).prompts([0]).tokens[0, -1] == line_end


def test_a_prompt_that_ends_with_a_stop_token_is_refused(tmp_path):
    message = "prompt 0 ends with '{}', which ends answers, so nothing can follow: the chat template in .* must begin"
    for number, (template, word) in enumerate(
        [
            ("{{ messages[0]['content'] }}<eos>", "<eos>"),
            ("{% for message in messages %}<turn>{{ message['content'] }}<end>{% endfor %}", "<end>"),
        ]
    ):
        folder = save_tokenizer(tmp_path / str(number), [BOOLEAN.prompt_text(0)], template=template)
        with pytest.raises(ValueError, match=message.format(word)):
            asked(folder)
    with pytest.raises(ValueError, match=message.format("<end>")):
        asked(save_tokenizer(tmp_path, [BOOLEAN.prompt_text(0)], template=TEMPLATE), beginning="<end>")
