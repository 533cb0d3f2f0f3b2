"""Writes the tables of docs/objectives.md and docs/integrations.md: `python scripts/objectives_table.py`.

In the first, one row for each objective, from its signature, its parts and three lines of its docstring:

    NAME (arXiv ID): formula.           first line; an objective without a paper writes (ours)
    Degenerate: one sentence.           may continue on the next lines
    Evidence: paper and code (verl).    begins with paper, code, second-hand, derived or our reading
    Peers: verl, TRL.                   other libraries that have it; the line may be missing

and from docs/verdicts.json.

In the second, what other trainers can do with each objective of the catalog at its default arguments.

Text outside the two marks in a file is written by hand and not changed.
"""

import argparse
import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.objectives_table")

from ipsrl.command import extensions
from ipsrl.command.ending import Ending
from ipsrl.integrations.advantages_only import beyond_advantages, not_advantages
from ipsrl.integrations.guest import GuestObjective
from ipsrl.integrations.loss_of_rows import couples_answers, couples_groups
from ipsrl.integrations.refusals import REFERENCE, WITH_EXACT_TEXT, refusal
from ipsrl.marked_page import Marks
from ipsrl.objectives import Objective, make, names
from ipsrl.objectives.catalog import CATALOG
from ipsrl.records.json_files import read_json
from ipsrl.text_table import markdown

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "objectives.md"
MARKS = Marks(
    "<!-- The table is written by scripts/objectives_table.py: change the docstrings in the catalog instead. -->",
    "<!-- Here the table ends. -->",
)
INTEGRATIONS = ROOT / "docs" / "integrations.md"
TRAINERS = ("name", "inside TRL", "inside verl", "inside Tunix", "advantages alone, with GRPO's loss")
GROUP_SIZE = 8
VERDICTS = ROOT / "docs" / "verdicts.json"
COLUMNS = ("name", "formula", "paper", "code", "defaults", "needs", "degenerate cases", "evidence", "peers", "verdict")

FIRST_LINE = re.compile(r"(?P<title>.+?) \((?P<paper>ours|[^()]*arXiv \d{4}\.\d{4,5}[^()]*)\): (?P<formula>.+)\.")
EVIDENCE = ("paper", "code", "second-hand", "derived", "our reading")


def table() -> str:
    """The rows of the catalog in its order, as a Markdown table."""
    return markdown([COLUMNS, *(cells(name) for name in names())])


def table_of_trainers() -> str:
    """A Markdown table: rows of the catalog, and whether other trainers can use them."""
    made = [(code(name), make(name)) for name in names()]
    insides = inside_trl, inside_verl, inside_tunix, by_advantages
    return markdown([TRAINERS, *([name, *(inside(one) for inside in insides)] for name, one in made)])


def inside_verl(objective: Objective) -> str:
    """Whether verl computes an objective, and when: as TRL, without parameters of its own."""
    found = inside_trl(objective)
    if found.startswith("full") and GuestObjective(objective, GROUP_SIZE, "verl", WITH_EXACT_TEXT).learns:
        return "refused: it learns parameters"
    return found


def inside_trl(objective: Objective) -> str:
    """Whether TRL computes an objective, and when."""
    return inside("TRL", objective, couples_answers)


def inside_tunix(objective: Objective) -> str:
    """Whether Tunix computes an objective, and when: the parts of its batches are whole groups."""
    return inside("Tunix", objective, couples_groups)


def inside(trainer: str, objective: Objective, couples: Callable[[Objective], bool]) -> str:
    """Whether a trainer computes an objective, and when; it cannot cut a batch of an objective that `couples`."""
    for provided, when in ((REFERENCE, ""), (WITH_EXACT_TEXT, ", with `exact_text` as `outcome_of`")):
        refused = refusal(objective, GROUP_SIZE, trainer, provided)
        if not refused:
            return f"full{when}{', in one part' if couples(objective) else ''}"
    return short(refused)


def by_advantages(objective: Objective) -> str:
    """Whether advantages of rewards and outcomes are all of an objective."""
    refused = refusal(objective, GROUP_SIZE, "a trainer", frozenset()) or not_advantages(objective, GROUP_SIZE)
    if refused:
        return short(refused)
    differing = beyond_advantages(objective)
    return f"all but its {' and '.join(differing)}" if differing else "full"


def short(refused: str) -> str:
    """A refusal in a cell, without what is the same in all."""
    return f"refused: {refused.removeprefix('the objective ').partition(', which')[0].partition(', and')[0]}"


def cells(name: str) -> list[str]:
    """One row of the table; the verdict is empty where the page has none.

    Raises:
      ValueError: the docstring of the objective lacks one of the three lines.
    """
    function = CATALOG[name]
    title, paper, formula = first_line(function)
    degenerate, evidence = (entry(function, key) for key in ("Degenerate", "Evidence"))
    if not evidence.startswith(EVIDENCE):
        raise ValueError(f"{name}: its evidence, {evidence!r}, must begin with one of {', '.join(EVIDENCE)}")
    file = Path(inspect.getsourcefile(function)).resolve().relative_to(ROOT)
    defaults = ", ".join(f"{p.name}={p.default}" for p in inspect.signature(function).parameters.values())
    return [
        f"`{name}`",
        f"{prose(title)}: {code(formula)}",
        re.sub(r"arXiv (\d{4}\.\d{4,5})", r"[\1](https://arxiv.org/abs/\1)", prose(paper)),
        # Without line numbers: one more import in a file would change the rows of all its objectives.
        f"[{file.name}](../{file.as_posix()})",
        code(defaults),
        ", ".join(code(field) for field in sorted(make(name).needs)),
        prose(degenerate),
        prose(evidence),
        prose(entry(function, "Peers", "").rstrip(".")),
        f"[{word}](verdicts.md#{word.replace(' ', '-')})" if (word := words().get(name)) else "",
    ]


@functools.cache
def words() -> dict[str, str]:
    """The published verdicts, in a word each."""
    return {published["objective"]: published["word"] for published in read_json(VERDICTS)["verdicts"]}


def first_line(function: Callable) -> tuple[str, str, str]:
    """Title, paper and formula of an objective."""
    line = (inspect.getdoc(function) or "").partition("\n")[0]
    match = FIRST_LINE.fullmatch(line)
    if match is None:
        raise ValueError(
            f"{function.__name__}: its docstring must begin with 'NAME (arXiv ID): formula.', or with (ours) in the "
            f"place of (arXiv ID), not {line!r}"
        )
    return match["title"], match["paper"], match["formula"]


def entry(function: Callable, key: str, default: str | None = None) -> str:
    """The text after `key: ` in a docstring, up to the next blank line or entry; a default in its place if given."""
    match = re.search(rf"^{key}: (.+?)(?=\n\n|\n[A-Z]\w+: |\Z)", inspect.getdoc(function), re.DOTALL | re.MULTILINE)
    if match is not None:
        return " ".join(match[1].split())
    if default is None:
        raise ValueError(f"{function.__name__}: its docstring lacks the line '{key}: ...'")
    return default


def code(text: str) -> str:
    """A code span in a cell; empty for an empty text."""
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""


def prose(text: str) -> str:
    """Plain text in a cell; spans in backticks are kept."""
    spans = re.split(r"(`[^`]*`)", text)
    return "".join(code(s.strip("`")) if s.startswith("`") else re.sub(r"([\\|*_<\[\]~])", r"\\\1", s) for s in spans)


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError if there are extensions, whose objectives are none of these pages."""
    if extensions.loaded():
        raise ValueError(f"the tables are those of ipsrl alone: unset {extensions.VARIABLE}")


def parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)


if __name__ == "__main__":
    arguments = parser().parse_args()
    with Ending():
        check(arguments)
        for document, written in ((DOCUMENT, table()), (INTEGRATIONS, table_of_trainers())):
            document.write_text(MARKS.filled(document.read_text(), written))
            print(f"wrote {len(names())} rows to {document.relative_to(ROOT)}")
