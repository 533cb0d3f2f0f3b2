"""Every declared row of the catalog."""

import importlib
from pathlib import Path

from ipsrl.objectives.catalog import CATALOG


def _module_of(text):
    """The module of the catalog in which an objective stands."""
    return CATALOG[text.partition("(")[0]].__module__.rpartition(".")[2]


class Rows(dict):
    """Says what to do about a row that is not declared, where a KeyError would say that it is not."""

    def __missing__(self, text):
        raise LookupError(
            f"{text!r} is not declared: add it to ROWS of tests/objectives/rows_{_module_of(text)}.py, as a Row "
            "(rows.py says what its fields are)"
        )


ROWS = Rows()
for path in sorted(Path(__file__).parent.glob("rows_*.py")):
    ROWS |= importlib.import_module(f"tests.objectives.{path.stem}").ROWS
