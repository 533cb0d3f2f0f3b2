"""Every declared row of the catalog."""

import importlib
from pathlib import Path


class Rows(dict):
    """Says what to do about a row that is not declared, where a KeyError would say that it is not."""

    def __missing__(self, text):
        raise LookupError(
            f"{text!r} is not declared: add it to ROWS of the module tests/objectives/rows_*.py which is named as its "
            "module of the catalog, as a Row (rows.py says what its fields are)"
        )


ROWS = Rows()
for path in sorted(Path(__file__).parent.glob("rows_*.py")):
    ROWS |= importlib.import_module(path.stem).ROWS
