import json

import pytest
from transformers import AutoTokenizer

from ipsrl.environments import critiques
from ipsrl.environments.agents.tools import ToolUse
from ipsrl.environments.language.chat_template import TurnsWithoutStop
from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.tasks.factors import Factors
from tests.environments.language.tokenizers_for_tests import (
    BOS,
    END,
    EOS,
    TEMPLATE,
    TURN,
    ids,
    save_sentencepiece,
    save_tokenizer,
)
from tests.environments.reading.answers import trajectories_of

TASK = Factors(numbers=2)
TAGS = ["<think>", "</think>", "<answer>", "</answer>"]
FIELDS = {"vocabulary_size": 800, "max_tokens": 100, "longest_prompt": 1500, "verifier": VerifierPool(workers=0)}


def asked(folder, task=TASK, kind=LanguageTask, **fields):
    return kind(task, str(folder), **FIELDS | fields)


def saved(folder, how="special", template=TEMPLATE, **changes):
    """A tokenizer to which tags, padding and a word of another kind were added."""
    folder.mkdir(exist_ok=True)
    save_tokenizer(folder, [TASK.prompt_text(0)] * 2, template=template, **changes)
    return with_tags(folder, how)


def with_tags(folder, how):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if how == "special":
        tokenizer.add_special_tokens({"additional_special_tokens": TAGS})
    elif how == "named":
        tokenizer.add_special_tokens({"cls_token": "<think>", "sep_token": "</think>", "mask_token": "<answer>"})
    else:
        tokenizer.add_tokens(TAGS)
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    tokenizer.save_pretrained(folder)
    return folder


def tokens_of(environment, text):
    return ids(environment.tokenizer, text)


def verified(environment, *texts):
    answers = [[text if isinstance(text, list) else tokens_of(environment, text) for text in texts]]
    return environment.verify(trajectories_of(environment, [0], answers))


RIGHT = TASK.answer_text(int(TASK.admissible[0].argmax()))


@pytest.mark.parametrize("how", ["special", "plain", "named"])
@pytest.mark.parametrize("stop_strings", [(), ("never",)])
def test_tags_are_read_whatever_kind_of_token_they_are(how, stop_strings, tmp_path):
    environment = asked(saved(tmp_path, how), stop_strings=stop_strings)
    text = f"<think>two <answer> 1 1 </answer></think>{RIGHT}"
    tokens = tokens_of(environment, text)
    assert tokens[0] == environment.tokenizer.convert_tokens_to_ids("<think>")
    pad = environment.tokenizer.pad_token_id
    # The marks of the template, padding and the ends of texts and turns are no words.
    marked = [BOS, pad, *tokens[:3], TURN, *tokens[3:], pad, END, EOS]
    assert environment.answer_texts([tokens, marked]) == [text, text]
    outcomes = verified(environment, tokens, marked, text.replace("</think>", ""), text.replace("</answer>", ""))
    assert outcomes.rewards.tolist() == [[1, 1, 0, 0]]


@pytest.mark.parametrize("how", ["special", "plain"])
@pytest.mark.parametrize("stops_by", ["string", "string over tokens", "token"])
def test_a_tag_that_ends_an_answer_is_read(how, stops_by, tmp_path):
    if stops_by == "string over tokens":
        folder = save_tokenizer(tmp_path, [TASK.prompt_text(0)] * 2)
    else:
        folder = saved(tmp_path, how)
    if stops_by == "token":
        ends = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(["</answer>", "<end>"])
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    environment = asked(folder, stop_strings=() if stops_by == "token" else ("</answer>",))
    assert verified(environment, RIGHT, f"{RIGHT} and more").rewards.tolist() == [[1, 1]]


def test_tags_of_a_sentencepiece_tokenizer_are_read(tmp_path):
    folder = with_tags(save_sentencepiece(tmp_path, [" and", "the"]), "special")
    environment = asked(folder)
    assert verified(environment, f"<think>x</think>{RIGHT}", f"<think>x{RIGHT}").rewards.tolist() == [[1, 0]]


def test_tags_that_the_template_writes_are_read(tmp_path):
    system = "Think between <think> and </think>, answer between <answer> and </answer>."
    environment = asked(saved(tmp_path, template=f"{system}{TEMPLATE}"))
    assert verified(environment, f"<think>x</think>{RIGHT}", f"<think>x{RIGHT}").rewards.tolist() == [[1, 0]]


def test_special_tokens_that_nobody_names_are_words(tmp_path):
    folder = saved(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": [*TAGS, "<tool>"]})
    tokenizer.save_pretrained(folder)
    environment = asked(folder, system_prompt="Call <tool> if need be.")
    assert environment.answer_texts([tokens_of(environment, "a<tool>b<turn>c")]) == ["a<tool>bc"]


COUNTDOWN = Countdown(numbers=3, problems=4, largest_number=9, largest_target=30, least_solutions=2)
GOAL = COUNTDOWN.answer_text(int(COUNTDOWN.admissible[0].argmax()))


@pytest.mark.parametrize(
    "changes",
    [
        {"template": TEMPLATE.replace("model\n", "model\n<think>\n")},
        {"template": TEMPLATE.replace("model\n", "model\n<think></think><think>")},
        {"fields": {"thinking": True}},
        {"fields": {"beginning": "I see. <think>Well"}},
        {"fields": {"beginning": "<think>"}, "template": None},
        {"fields": {"kind": ToolUse}, "template": TEMPLATE.replace("model\n", "model\n<think>\n")},
    ],
    ids=["template", "twice", "flag", "beginning", "base model", "tools"],
)
def test_a_thought_that_the_prompt_has_opened_is_not_read(changes, tmp_path):
    folder = saved(tmp_path, template=changes.get("template", TEMPLATE))
    environment = asked(folder, COUNTDOWN, **changes.get("fields", {}))
    cut = f"maybe\n{GOAL}\nno, wait, that is wrong, let me"
    right = int(COUNTDOWN.admissible[0].argmax())
    outcomes = verified(environment, cut, f"hm</think>{GOAL}", f"hm</think>{cut}<think>", environment.render(right))
    assert outcomes.rewards.tolist() == [[0, 1, 1, 1]]
    assert outcomes.outcome_id.tolist() == [[-1, right, right, right]]
    # Nor is it where the answer is shown to the model, or to a critic.
    _, shown = (
        environment.tokenizer.decode(environment.prompts_with_history([0], [[tokens_of(environment, text)]]).tokens[0])
        for text in (GOAL, f"{cut}</think>{GOAL}")
    )
    assert "maybe" not in shown
    said = critiques.right_or_wrong(environment, 0, tokens_of(environment, GOAL))
    assert environment.tokenizer.decode(said).startswith("The answer is wrong")
    assert environment.tokenizer.decode(critiques.true_answer(environment, 0)) == GOAL


@pytest.mark.parametrize(
    "changes",
    [
        {"template": TEMPLATE.replace("model\n", "model\n<think>\n\n</think>\n\n")},
        {"template": f"Begin with <think> at once.{TEMPLATE}"},
        {"fields": {"system_prompt": "Begin with <think> at once."}},
    ],
    ids=["closed", "template", "system prompt"],
)
def test_a_thought_that_is_closed_or_only_named_is_none(changes, tmp_path):
    folder = saved(tmp_path, template=changes.get("template", TEMPLATE))
    environment = asked(folder, COUNTDOWN, **changes.get("fields", {}))
    assert verified(environment, GOAL, f"<think>{GOAL}").rewards.tolist() == [[1, 0]]


@pytest.mark.parametrize("how", ["stop tokens", "stop strings", "part of it", "no end", "spaces"])
def test_a_template_that_ends_turns_with_a_stop_is_not_warned_of(how, tmp_path):
    template = {"no end": TEMPLATE.replace("<end>\n", "\n"), "spaces": TEMPLATE.replace("<end>", " <end>")}
    stops = (EOS, END) if how in ("stop tokens", "spaces") else None
    strings = {"stop strings": ("<end>",), "part of it": ("<en",)}
    environment = asked(
        saved(tmp_path, template=template.get(how, TEMPLATE), stops=stops), stop_strings=strings.get(how, ())
    )
    assert environment.num_prompts


@pytest.mark.parametrize("template", [TEMPLATE, TEMPLATE.replace("<end>", " <end>")])
def test_a_template_that_ends_turns_with_another_token_is_warned_of(template, tmp_path):
    folder = saved(tmp_path, template=template, stops=None)
    with pytest.warns(TurnsWithoutStop, match=r"ends a turn with '<end>', .*: add 3 to eos_token_id in its generation"):
        environment = asked(folder, stop_strings=("never",))
    assert environment.stop_tokens == (EOS,)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("strftime_now('%d %B %Y')", "26 July 2024"),
        ("strftime_now(format='%Y-%m-%d %H:%M')", "2024-07-26 00:00"),
        ("strftime_now('%A, %-d %b %y, %%')", "Friday, 26 Jul 24, %"),
        ("strftime_now('%F') ~ strftime_now('%-m')", "2024-07-267"),
        ("date_string", "26 Jul 2024"),
        ("strftime_now is defined", "True"),
    ],
)
def test_no_template_knows_what_day_it_is(code, words, tmp_path):
    texts = [
        environment.tokenizer.decode(environment.prompt_table.tokens[0][environment.prompt_table.mask[0]])
        for environment in (
            asked(saved(tmp_path / "dated", template="\n {{ " + code + " }} " + TEMPLATE)),
            asked(saved(tmp_path / "plain")),
        )
    ]
    assert texts[0] == f"\n {words} {texts[1]}"
