"""Texts of all SQL on results: names of tables, settings and errors of DuckDB, how names and texts are written."""

import difflib
import re
from collections.abc import Sequence

from ipsrl.checking.specifications import shortened

TABLES = ("runs", "metrics")

ONLY_READ = (
    "results are read-only: write one SELECT, and name the values of a pivot, as in "
    "pivot runs on objective in ('grpo') using avg(reward)"
)

IN_MEMORY: dict[str, str | float | list[str]] = {"temp_directory": ""}
"""Refuses what exceeds DuckDB's memory, 80 % of the machine's: it would write to the working directory."""


def in_one_sentence(message: str, columns: Sequence[str]) -> str:
    """The message of a DuckDB error, without its suggestions, which omit most columns."""
    if message.startswith("Permission Error") or "Secret Storage" in message:
        return "SQL reads the tables runs and metrics alone: no other files, addresses or extensions"
    if "read-only" in message:
        return ONLY_READ
    if column := re.search(r'(?:Referenced column|a column named) "(.+?)"', message):
        asked = column[1].lower()
        near = [known for known in columns if asked in known.lower()]
        near += [known for known in difflib.get_close_matches(asked, columns, n=5) if known not in near]
        hint = f"near it are {', '.join(near[:10])}" if near else "describe runs and describe metrics list all"
        return f"there is no column {shortened(column[1])}: {hint}"
    if table := re.search(r"Table with name (\S+) does not exist", message):
        return f"there is no table {shortened(table[1])}: there are {' and '.join(TABLES)}"
    if "'pytz'" in message:
        return (
            "a time with a time zone needs the package pytz, which is not installed: write it as text, as now()::text"
        )
    if message.startswith("Out of Memory"):
        return "there is too little memory: ask for fewer rows or columns"
    first_line = message.partition("\n")[0].partition("  Input: ")[0]
    return first_line.partition(": ")[2] or first_line


def identifier(column: str) -> str:
    """A column as SQL names it."""
    return '"' + column.replace('"', '""') + '"'


def literal(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
