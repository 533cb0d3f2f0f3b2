import random

import numpy as np
import pytest

from ipsrl.environments.catalog import make
from ipsrl.environments.tasks.addition import SPELLINGS, Addition
from ipsrl.environments.text import STOP
from tests.environments.reading.answers import tokens_of, trajectories_of

TASK = Addition(problems=16)
SMALL = Addition(digits=1, modulus=10, problems=81, scratchpad="announced")
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def slow_value(text):
    """The number and the spelling of an answer in text, by arithmetic on its characters; None if there is none."""
    words = text.split()
    if words and all(word in NAMES for word in words):
        return whole("".join(str(NAMES.index(word)) for word in words), "words")
    if text.startswith("reversed "):
        return whole(text[len("reversed ") :][::-1], "reversed")
    if text.endswith(".0"):
        return whole(text[:-2], "decimal")
    if text.endswith("/1"):
        return whole(text[:-2], "fraction")
    if text.startswith("+"):
        return whole(text[1:], "sign")
    if "+" in text:
        parts = text.split("+")
        for place, part in enumerate(reversed(parts)):
            digit, zeros = part[:1], part[1:]
            if whole(part, "") is None or (digit != "0" and zeros != "0" * place) or (digit == "0" and zeros):
                return None
        # Only a single place has a zero of its own before it.
        return None if parts[0] == "0" and len(parts) > 2 else (sum(map(int, parts)), "places")
    return whole(text[1:], "zero") if text[:1] == "0" and len(text) > 1 else whole(text, "plain")


def whole(digits, spelling):
    is_number = digits and all(digit in "0123456789" for digit in digits) and (digits[0] != "0" or digits == "0")
    return (int(digits), spelling) if is_number else None


@pytest.mark.parametrize("task", [TASK, SMALL, Addition(2, 101, spellings=("places", "reversed", "plain"))], ids=str)
def test_each_hypothesis_is_another_spelled_number(task):
    read = [slow_value(name) for name in task.hypotheses]
    assert read == [(value, spelling) for value in task.values for spelling in task.spellings]


@pytest.mark.parametrize("task", [TASK, SMALL, Addition(2, 101, 40), Addition(2, problems=40)], ids=str)
def test_right_are_all_spellings_of_the_sum(task):
    numbers = range(10 ** (task.digits - 1), 10**task.digits)
    assert {number for pair in task.summands for number in pair} <= set(numbers)
    for prompt, (first, second) in enumerate(task.summands):
        total = first + second
        while task.modulus and total >= task.modulus:
            total -= task.modulus
        right = [slow_value(task.hypotheses[i]) for i in np.flatnonzero(task.admissible[prompt])]
        assert right == [(total, spelling) for spelling in SPELLINGS]
    assert len(task.values) == (task.modulus or 2 * numbers[-1] + 1)


def test_a_slow_reader_agrees_on_texts_with_mistakes():
    rng, read = random.Random(0), 0
    ids = {slow_value(name): i for i, name in enumerate(TASK.hypotheses)}
    for _ in range(4000):
        text = rng.choice(TASK.hypotheses)
        for _ in range(rng.choice((0, 1, 1, 2))):
            start = rng.randrange(len(text) + 1)
            end = start + rng.choice((0, 0, 1))
            text = text[:start] + rng.choice([*"0159+./", "reversed ", " six", "", ".0", "/1"]) + text[end:]
        known = ids.get(slow_value(text.strip()), -1)
        assert TASK.parse_text(f"<answer>{text}</answer>") == known, text
        read += known >= 0
    assert 1000 < read < 3000


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("5 + 6 = 11, so <answer>\n579\n</answer>. Done.", "579"),
        ("<no_think> <answer> Five  Seven\nNINE </answer>", "five seven nine"),
        ("<think> <answer>12</answer> </think><answer>500 + 70 + 9</answer>", "500+70+9"),
        ("<answer>579 / 1</answer>", "579/1"),
        ("<answer>Reversed 975</answer>", "reversed 975"),
    ],
)
def test_answers_in_text(text, name):
    assert TASK.hypotheses[TASK.parse_text(text)] == name


@pytest.mark.parametrize(
    "answer",
    ["00579", "579.00", "579.", "1,242", "5 7 9", "-579", "1999", "seventy nine", "579 or 580", "975 reversed"],
)
def test_other_answers_in_text_have_no_outcome(answer):
    assert TASK.parse_text(f"<answer>{answer}</answer>") == -1


@pytest.mark.parametrize(
    ("scratchpad", "answer", "name"),
    [
        ("none", "+ 5 7 9", "+579"),
        ("none", "9 7 5 : + 5 7 9", None),
        ("optional", "9 7 5 : 5 7 9 : + 5 7 9", "+579"),
        ("optional", ": <think> % : + 5 7 9", "+579"),
        ("optional", "9 7 5 :", None),
        ("announced", "<think> 9 7 5 : + 5 7 9", "+579"),
        ("announced", "<think> : + 5 7 9", "+579"),
        ("announced", "<no_think> + 5 7 9", "+579"),
        ("announced", "<no_think> 9 7 5 : + 5 7 9", None),
        ("announced", "<think> + 5 7 9", None),
        ("announced", "+ 5 7 9", None),
    ],
)
def test_scratchpads_have_no_part_in_the_outcome(scratchpad, answer, name):
    task = Addition(scratchpad=scratchpad)
    outcome = task.parse([*tokens_of(task, answer.split()), STOP])
    assert (None if outcome < 0 else task.hypotheses[outcome]) == name


def test_random_forms_have_both_modes():
    hypothesis, rng = SMALL.hypotheses.index("reversed 7"), np.random.default_rng(0)
    forms = {" ".join(SMALL.spell("reversed 7", rng)) for _ in range(20)}
    assert forms == {"<no_think> reversed 7", "<think> 7 : reversed 7"}
    texts = {SMALL.answer_text(hypothesis, rng).replace("\n", " ") for _ in range(20)}
    assert texts == {f"{mode} <answer> reversed 7 </answer>" for mode in ("<no_think>", "<think> 7 </think>")}
    assert " ".join(SMALL.spell("reversed 7", None)) == "<no_think> reversed 7"


def test_the_control_token_is_the_fifth():
    answers = [[SMALL.render(0, np.random.default_rng(seed)) for seed in range(8)]]
    trajectories = trajectories_of(SMALL, [0], answers)
    assert set(trajectories.tokens[0, :, 0].tolist()) == set(tokens_of(SMALL, ["<think>", "<no_think>"])) == {5, 6}
    outcomes = SMALL.verify(trajectories)
    assert (outcomes.outcome_id == 0).all()
    assert outcomes.planning_mask[0, :, 0].all()


def test_prompts_say_what_is_asked():
    first, second = SMALL.summands[0]
    assert SMALL.question_text(0) == f"{first} + {second} % 1 0"
    assert SMALL.prompt_text(0).startswith(f"What is the remainder of ({first} + {second}) / 10?\n")
    words = make("addition(digits=2, problems=1, spellings=(words,))")
    assert "\ntwo zero four six\n" in words.prompt_text(0)
    assert words.num_hypotheses == 199
