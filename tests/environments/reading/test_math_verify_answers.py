import re
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from ipsrl.environments import catalog
from ipsrl.environments.reading.numeric_answers import read_number
from scripts import answer_frames
from tests.environments.reading.right_answers import RIGHT
from tests.environments.reading.test_answer_kinds import NUMBERS, filled, number_forms
from tests.environments.reading.wrong_answers import WRONG

HOSTILE = [
    "__import__('os')",
    "x",
    "Symbol",
    "1._a",
    "'1'",
    "1if 1else 2",
    "1,2;3",
    "0x1f",
    "1_000",
    "1e5",
    "9j",
    "[1]",
]


@pytest.fixture(scope="module")
def read():
    pytest.importorskip("math_verify", reason='pip install -e ".[math]"')
    return catalog.make("math_answers(parser=math_verify)").reader


def test_a_missing_package_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    monkeypatch.delitem(sys.modules, "ipsrl.environments.reading.math_verify_answers", raising=False)
    with pytest.raises(ValueError, match=r'pip install -e "\.\[math\]"$'):
        catalog.make("math_answers(parser=math_verify)")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("#### 42", 42),
        ("so it is 3.5", Fraction(7, 2)),
        (r"\boxed{\frac{1}{3}}", Fraction(1, 3)),
        ("$x = 5$", 5),
        ("50%", 50),
        (r"$50\%$", 50),
        ("1,234", 1234),
        (r"$\sqrt{16}$", 4),
        ("<think>7</think> 8", 8),
        (r"$\pi$", None),
        ("1/0", None),
        ("no number", None),
        ("", None),
    ],
)
def test_numbers(read, text, number):
    assert read(text) == number


def kinds_read(read, table):
    """The kinds of a table that are read as the right number at all sizes of numbers."""
    return {
        kind
        for kind, template in table.items()
        if all(read(filled(template, number_forms(n))) == n for n in NUMBERS if "@m" not in template or n >= 1000)
    }


@pytest.mark.slow
def test_docs_compare_it_with_our_reader(read):
    page = (Path(__file__).parents[3] / "docs" / "answers.md").read_text()
    for kinds, table in (("right", RIGHT["math_answers"]), ("wrong", WRONG["math_answers"])):
        ours, theirs = (len(kinds_read(reader, table)) for reader in (read_number, read))
        assert f"| {kinds} | {len(table)} | {ours} | {theirs} |" in page


@pytest.mark.slow
@pytest.mark.parametrize("parts", answer_frames.PARTS)
def test_docs_compare_frames(read, parts):
    page = (Path(__file__).parents[3] / "docs" / "answers.md").read_text()
    tried = [*answer_frames.frames(parts)]
    for right in (True, False):
        frames = [frame for frame in tried if frame.right == right]
        ours, theirs = (sum(reader(frame.text) == frame.number for frame in frames) for reader in (read_number, read))
        row = [f"| {parts} | {'right' if right else 'wrong'} | {len(frames)} |", f"| {ours} | {theirs} |\n"]
        assert re.search(r" \d+ ".join(map(re.escape, row)), page), row


def test_only_digits_and_signs_reach_the_compiler(read):
    watching, compiled = True, set()

    def watch(event, arguments):
        if watching and event == "compile" and arguments[1] == "<string>" and isinstance(arguments[0], bytes | str):
            compiled.add(arguments[0] if isinstance(arguments[0], str) else arguments[0].decode())

    sys.addaudithook(watch)
    for hostile in HOSTILE:
        for text in (
            "{}",
            "answer: 1+{}",
            "answer: 1+2*{}+3",
            "1 + {} + (2",
            "= 3^({})",
            "${}$",
            "1/2{}1/2",
            "(1+2).{}",
        ):
            read(text.format(hostile))
    watching = False
    # SymPy writes numbers as calls of its own classes.
    compiled -= {"from sympy import *"}
    assert compiled
    assert all(re.fullmatch(r"(?:Integer|Float|[-\d\s+*/().'])*", text) for text in compiled), compiled
