"""Two readers written apart agree on texts with decorations, cuts, junk and wrong answers."""

import random
import zlib

import pytest

from tests.environments import slow_numbers, slow_readers
from tests.environments.right_answers import RIGHT
from tests.environments.test_answer_kinds import TASKS, answers_of, filled
from tests.environments.wrong_answers import WRONG

SLOW = {
    "countdown": slow_readers.slow_countdown,
    "hypospace_boolean": slow_readers.slow_boolean,
    "hypospace_causal": slow_readers.slow_causal,
    "hypospace_voxels": slow_readers.slow_voxels(3),
    "math_answers": slow_numbers.slow_number,
}
JUNK = [
    *"0123456789xyABC+-*/^=()[]{}.,;:!?'\"`$|&~_<>%#\n  \\½²×∧→",
    *("**", "```", " and ", " or ", " not ", "->", "\n\n", "\n- ", "\n* ", "1. ", " is ", " apples", " which "),
    *("</answer>", "<answer>", "Answer: ", "\\boxed{", "\\frac{1}{2}", "\\times ", "\\land ", "\\to ", "\\text{"),
    *("Layer 2:", "\nLayer 1:\n", "1 0 0\n", "<think>", "</think>", ". It ", " (so) ", " thousand", "I ", "<b>"),
    *("− ", "minus ", "So ", "She has ", "the value of x", "0x1"),
    *("\\boxed{7}", "\\sqrt{", "&= ", " m^2", " at most", " clips"),
    *("\nLevel 2:\n", "\nThen also\n", "\nor ", "\nnot ", "\nbut also ", "\nthousand", "7. * ", "2) - ", "dozen: "),
    *(" is the answer.", " works. ", " and we are done", " is not correct", "In total, ", "gives us ", "I doubt that "),
    *("^\\circ", "^{\\circ}", "\\frac{1}2", "\\frac1{2}", "none of them is "),
    *("~\\text{cm}", "~", ", not 6", " (not 7)", "(B) ", "c) ", "_Answer:_ ", "\n> ", "\n\n> ", " primes below 10"),
    *(
        "\\equiv ",
        "\\bmod 7",
        "\\pmod 7",
        "\\boxed{\\boxed{3}}",
        "The area under it is ",
        "who do not come are ",
        " in ten",
    ),
    *(" dollars fifty", "by ", "given by ", "twofold ", " is what we need", "if we forget one, ", " (add 2)"),
    *("Graph: ", "Expression: ", "Structure:\n", "#### ", " = ", "1/2", " AND ", "NOT ", "No edges", "f(x, y) = "),
]


def texts(task, count, seed):
    """Random texts: a kind of text around an answer, changed in no to four places."""
    rng = random.Random(seed)
    templates = [*RIGHT[task].values(), *(text for text in WRONG[task].values() if len(text) < 200)]
    forms = [form for form, _, _ in answers_of(task)]
    for _ in range(count):
        template, form = rng.choice(templates), rng.choice(forms)
        text = filled(template, form)
        for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
            text = changed(text, rng)
        yield text


def changed(text, rng):
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.choice((0, 0, 0, 1, 1, 3)))
    way = rng.randrange(8)
    if way == 0:
        return text[:start]
    if way == 1:
        return text[:start] + text[start:end] * 2 + text[end:]
    if way == 2:
        return text[:start] + text[end:]
    if way == 3:
        return text + rng.choice(JUNK) + rng.choice(JUNK)
    return text[:start] + rng.choice(JUNK) + text[end:]


@pytest.mark.parametrize("count", [400, pytest.param(8_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("task", SLOW)
def test_a_second_reader_agrees(task, count):
    fast, slow = TASKS[task].reader if task in TASKS else answers_of(task)[0][2], SLOW[task]
    read = 0
    for text in texts(task, count, zlib.crc32(task.encode())):
        answer = fast(text)
        assert answer == slow(text), text
        read += answer is not None
    # Many of the texts hold an answer, and many do not.
    assert count / 10 < read < count * 9 / 10
