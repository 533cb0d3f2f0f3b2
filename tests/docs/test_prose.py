"""Docstrings read once: each begins with the noun or verb of the thing itself."""

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[2]
FOLDERS = ("experiments", "ipsrl", "scripts", "tests")
HEADLESS = re.compile(r"(As|By|Of|That|Those|What|Who)\b")


def docstrings(tree):
    """The text behind a heading, a constant or a field, and its line."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for before, statement in zip([node if documented else None, *body], body, strict=False):
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if before and is_text and isinstance(statement.value.value, str):
                yield statement.lineno, statement.value.value.strip()


def headless(source):
    """The lines of the docstrings that begin without the thing that they describe."""
    return [line for line, text in docstrings(ast.parse(source)) if HEADLESS.match(text)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_docstring_begins_with_the_thing_itself(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in headless(path.read_text())]
    assert not found, f"these docstrings begin with a word such as What or Of: {', '.join(found)}"


@pytest.mark.parametrize(
    "source",
    [
        '"""What stands here."""',
        'def f():\n    """Of each seed."""',
        'class A:\n    """\n    Those of a key."""',
        'class A:\n    x: int\n    """By hand."""',
        'N = 2\n"""As many as seeds."""',
    ],
)
def test_headless_docstrings_are_found(source):
    assert len(headless(source)) == 1


def test_others_are_left_alone():
    assert headless('"""Offers."""\nN = 2\n"""The number of seeds."""\nprint("What")\nM = "Of"\n') == []
