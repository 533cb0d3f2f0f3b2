"""SQL queries on the results of any number of runs: `python scripts/results.py runs --sql="select ..."`.

    python scripts/results.py runs
    python scripts/results.py runs --sql="select objective, avg(recovery) from runs group by objective"
    python scripts/results.py runs /other/runs --format=csv --out=curves.csv \\
        --sql="select objective, seed, step, reward from metrics where objective = 'grpo'"
    python scripts/results.py runs --parquet=tables     # and then: python scripts/results.py tables --sql="..."

A terminal, and a pipe, gets control characters as JSON has them, as \\u001b; a file by --out has them unchanged.
Without --sql it counts runs by objective and lists the columns of the tables `runs` and `metrics`, which are described
in `ipsrl/records/results.py`. Nothing in the folders is changed.
"""

import argparse
import csv
import io
import json
import threading
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.results")

from ipsrl import extras
from ipsrl.checking.paths import require_possible, require_readable
from ipsrl.command.ending import Ending
from ipsrl.printable import printable
from ipsrl.records import results
from ipsrl.records.discovery import require_folder, require_outside_runs
from ipsrl.records.json_files import plain, replace_file, require_file
from ipsrl.text_table import aligned

OVERVIEW = (
    "select kind, objective, count(*) as runs, count(*) filter (complete) as complete, "
    "max(last_written) as last_written from runs group by all order by all"
)
COLUMNS = (
    "select table_name as table, string_agg(column_name, ', ' order by column_index) as columns "
    "from duckdb_columns() where not internal group by all order by table_name desc"
)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Aligned columns; numbers have four digits."""
    return aligned([columns, *([_cell(value) for value in row] for row in rows)]) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float | Decimal):
        return f"{value:.4g}"
    return " ".join(str(value).split())


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Comma-separated values with a header; NULL is empty, NaN is nan."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def json_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A list with an object for each row; JSON has no NaN, so NaN is null as well."""
    try:
        objects = [dict(zip(columns, map(_json_value, row), strict=True)) for row in rows]
    except RecursionError:
        raise ValueError("the answer is nested too deeply for JSON") from None
    return json.dumps(plain(objects), indent=2) + "\n"


def _json_value(value: Any) -> Any:
    """A value of SQL as JSON; its text if JSON has nothing like it, such as a time."""
    if isinstance(value, dict):
        return {str(key): _json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(inner) for inner in value]
    if isinstance(value, Decimal):
        return float(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


FORMATS = {"table": table, "csv": csv_text, "json": json_text}
SUFFIXES = {"table": ".txt", "csv": ".csv", "json": ".json"}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("folders", nargs="+", metavar="DIR", help="folder with runs, or with files written by --parquet")
    made.add_argument("--sql", help="one SELECT on the tables runs and metrics")
    made.add_argument("--format", choices=FORMATS, default="table", help="of the answer")
    made.add_argument(
        "--out", type=Path, metavar="FILE", help="file for the result, .txt, .csv or .json; stdout by default"
    )
    made.add_argument("--timeout", type=float, default=60.0, help="seconds after which the SQL is ended; 60")
    made.add_argument("--parquet", metavar="DIR", help="write both tables there, for fast reading")
    made.add_argument("--skip_damaged", action="store_true", help="skip runs that cannot be read")
    return made


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError if a text is not in UTF-8, a folder does not exist, an output cannot be written there, the time
    limit is none, or the extra [analysis] is missing.
    """
    for name in ("out", "parquet", "sql"):
        require_readable(str(getattr(arguments, name) or ""), f"--{name}")
    if not 0 < arguments.timeout < threading.TIMEOUT_MAX:
        raise ValueError(f"--timeout is {arguments.timeout:g}, it must be positive and finite")
    if arguments.out is not None:
        require_file(arguments.out, "--out")
        require_outside_runs(arguments.out, "--out")
        if arguments.out.suffix != SUFFIXES[arguments.format]:
            raise ValueError(
                f"--out={arguments.out} must end in {SUFFIXES[arguments.format]} for --format={arguments.format}"
            )
    if arguments.parquet is not None:
        require_possible(Path(arguments.parquet), "--parquet")
        require_outside_runs(arguments.parquet, "--parquet")
    for folder in arguments.folders:
        require_folder(folder)
    extras.require("duckdb")


def main(command_line: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(command_line)
    with Ending():
        check(arguments)
        connection = results.load(*arguments.folders, skip_damaged=arguments.skip_damaged, parquet=arguments.parquet)
        text = FORMATS[arguments.format](*results.select(connection, arguments.sql or OVERVIEW, arguments.timeout))
        if arguments.sql is None and arguments.format == "table":
            for name, columns in results.select(connection, COLUMNS)[1]:
                text += f"\ncolumns of {name}: {columns}\n"
        if arguments.out is None:
            print(printable(text), end="")
        else:
            replace_file(arguments.out, text)


if __name__ == "__main__":
    main()
