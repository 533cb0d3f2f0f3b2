import re
import zlib

import pytest

from ipsrl.environments.reading.answer_text import (
    LONGEST_ANSWER,
    MOST_MARKERS,
    checksum,
    last_answer,
    marker,
    plain_lines,
    tagged_answer,
    without_remark,
)
from ipsrl.environments.reading.arithmetic import read_arithmetic, value
from tests.environments.reading.test_answer_kinds import TASKS, answers_of
from tests.tiers import slow_after
from tests.work import calls_of

MARKER = marker("result", signs="####")
PIECES = [
    *("<answer>((((", "1+", "x AND ", "A->B,", "1 0 0\n", "Layer 1:\n1 0 0\n", "{", "}", "\\", "\\frac{", "\\text{"),
    *("(", "1 ", "A->B\n", "*", "**", "_", "'", "a ", "a, ", "-", " ", "\n", "9", ".1", "=", "is ", "1 1/", "½"),
    *("so \\boxed{", "\\boxed{1+", "z answer: ((", "answer ", "graph\n", "```", "===\n", "(a", ". a", " as", "<think>"),
    *("2 000 ", "] [", "row 1:", "layer 1 - ", "1. ", "NOT ", "AND(", "f(x,y)=", "no edges ", "(A,B)", "and ", "~~~~"),
]


def read_all(text, goes_on="[0-9+]+"):
    return last_answer(MARKER, re.compile(goes_on), lambda lines: lines if lines != "?" else None, text)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("answer: 1", "1"),
        ("Answer : 1", "1"),
        ("THE ANSWER IS: 1", "1"),
        ("answers: 1", None),
        ("an answer 1", None),
        ("# Answer\n\n1", "1"),
        ("no answer\n1", None),
        ("result = 1", "1"),
        ("#### 1\n\n---\n2+\nthree\n4", "1\n2+"),
        ("<answer>1\ntwo</answer> 3", "1\ntwo"),
        ("<answer>1\ntwo", "1"),
        (r"\boxed{\{1\}} 2", None),
        (r"\boxed{\{1\}}, 2", None),
        (r"2 = \boxed{1}", None),
        (r"Two are 2. So it is $\boxed{1}$", "1"),
        ("answer: 1\nNo, it is not \\boxed{1}", None),
        (r"\boxed{1", None),
        ("answer: 1</answer>2", "1"),
        ("answer: 1\nanswer: ?", None),
        ("answer: 1\nmy final answer: ?", None),
        ("answer: 1\nthis answer: ?", "1"),
        ("answer: 1" + "\nthis answer: ?" * (MOST_MARKERS - 1), "1"),
        ("answer: 1" + "\nthis answer: ?" * MOST_MARKERS, None),
        ("<think>answer: 1</think>answer: 2<think>answer: 3", "2"),
        ("answer: " + "1" * (LONGEST_ANSWER - 1), "1" * (LONGEST_ANSWER - 1)),
        ("answer: " + "1" * (LONGEST_ANSWER + 1), None),
        ("answer: 1\n" + "1+\n" * LONGEST_ANSWER, None),
        ("answer: 1\nand more\n" + "1+\n" * LONGEST_ANSWER, "1"),
    ],
)
def test_where_an_answer_stands(text, answer):
    assert read_all(text) == answer


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("**1** × “2”", ["1  *  2"]),
        (r"\(1 \times \text{two}\)", ["1 *  two"]),
        ("```python\n1\n```", ["1"]),
        ("*1*\n***\n2", ["1", "2"]),
        ("2**3 2 ** 3", ["2^3 2^3"]),
        ("1'000 'a'", ["1'000  a"]),
        ("（１）", ["(1)"]),
        (")} 1", ["1"]),
        ("", []),
    ],
)
def test_one_spelling(text, lines):
    assert plain_lines(text) == lines


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("1. It", "1"),
        ("1. 5", "1. 5"),
        ("1 because 2", "1"),
        ("1, which", "1"),
        ("1 (so)", "1"),
        ("1 (x OR y)", "1 (x OR y)"),
        ("A->B (direct), B->C", "A->B (direct), B->C"),
        ("x. Or y", "x. Or y"),
        ("1.", "1"),
    ],
)
def test_remarks(line, kept):
    assert without_remark(line) == kept


@pytest.mark.parametrize("text", ["9^9^9^9", "2^301", "(2^300)^300", "*".join(["9^300"] * 9), "2^(1/2)", "0^0"])
def test_values_that_are_not_computed(text):
    assert value(read_arithmetic(text)) is None


@pytest.mark.parametrize(
    ("pieces", "length"), slow_after(1, [(PIECES[:6], 100_000), (PIECES[6:], 40_000)]), ids=["few", "others"]
)
@pytest.mark.parametrize("task", [*TASKS, "math_answers"])
def test_a_long_text_takes_no_more_work_than_its_last_answers(task, pieces, length):
    read = TASKS[task].reader if task in TASKS else answers_of(task)[0][2]
    for piece in pieces:
        for start in ("", "Answer: "):
            # Without an end, and as many answers just below the limit.
            for text in (
                start + piece * (length // len(piece)),
                (start + piece * (3900 // len(piece)) + " z ") * (length // 4000),
            ):
                assert calls_of(read, text)[0] < 300_000, start + piece


def test_half_a_character_is_no_error_in_ids_of_outcomes():
    """The ids of whole texts stay those that records hold."""
    assert checksum("a\ud800b") != checksum("ab")
    assert checksum("Albania") == zlib.crc32(b"Albania")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('```json\n{"0": 1}\n```', '{"0": 1}'),
        ("```\n_ Q\nQ _\n```", "_ Q\nQ _"),
        ("~~~\n5\n~~~", "5"),
        ("```579```", "579"),
        ("`13 10`", "13 10"),
        ("\n**`5`**\n", "5"),
        ("**```\n5\n```**", "5"),
        ("__x__", "__x__"),
        ("5`", "5`"),
        ("5**", "5**"),
        ("`5` and `6`", "`5` and `6`"),
        ("**5** or **6**", "**5** or **6**"),
        ("```\n5\n``` or 6", "```\n5\n``` or 6"),
        ("```json\n```", None),
        ("****", None),
    ],
)
def test_decoration_around_a_whole_tagged_answer(text, answer):
    assert tagged_answer(str, f"<answer>{text}</answer>") == answer
