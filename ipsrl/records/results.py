"""The results of any number of runs as two DuckDB tables, for SQL and notebooks.

    connection = results.load("runs/hypospace-demo", "runs/countdown-demo")
    connection.sql("select objective, avg(recovery) from runs where kind = 'training' group by objective")

The result of `sql` prints as a table; `.fetchall()` gives tuples, `.df()` a data frame if pandas is installed.

`runs` has one row for each run folder; if its records name several objectives, seeds or numbers of outcomes, one row
for each of these:

    path                    the folder
    kind                    training, if its config.json names one objective; otherwise experiment, whose folder
                            holds those of its training runs
    objective, seed         NULL if there is not exactly one
    complete                whether summary.json says so
    started, last_written   UTC: the first start, and the last write of metrics or summary, if any
    ...                     every value of config.json
    step, ...               the last recorded value of every metric
    summary                 summary.json as JSON, for summary->>'$.agrees'

`metrics` has one row for each record: path, objective, seed, step and every metric. A metric missing in a record is
NULL; a non-finite one is NaN, and so is every average over it.

Columns have the names in the files, as far as SQL can read them. A value of config.json has the name of its innermost
key; if several values of a file share that name, keys that are not nested come first and those in `training` second,
and the others are prefixed with their outer keys, as in `warm_start_learning_rate`. Metrics lose the prefix
`evaluation/` if no other metric has that name, as none of ours has: `recovery`, `effective_outcomes`, which are of the
policy; those of a group in the batch are `group_effective_outcomes`. In `runs`, a metric with the name of a value of
config.json is `last_...`, such as `last_num_outcomes`. Names that are still equal, in any case of their letters, get
numbers.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipsrl import extras
from ipsrl.checking.arguments import checked
from ipsrl.checking.paths import require_possible, require_readable
from ipsrl.checking.regular_files import require
from ipsrl.records import metric_log
from ipsrl.records.discovery import find, link_out_of, require_outside_runs, say_left_out, seed_of
from ipsrl.records.json_files import read_json
from ipsrl.records.progress_line import counted
from ipsrl.records.run_folder import says_complete
from ipsrl.records.sql.result_columns import config_columns
from ipsrl.records.sql.result_files import add_parquet, check_parquet, parquet_files, write_parquet
from ipsrl.records.sql.result_tables import (
    METRICS,
    is_of_record,
    make_tables,
    records_of,
    require_columns,
    structures_of,
)
from ipsrl.records.sql.sql_texts import IN_MEMORY, ONLY_READ, in_one_sentence

if TYPE_CHECKING:
    import duckdb

READ = ("config.json", "environment.json", "metrics.jsonl", "summary.json")
"""The files that are read of a run, beside its labels."""

MOST_ROWS = 10_000_000
"""Most rows of a result. Rows are Python objects, which DuckDB's memory limit does not count."""
LOCKED = (
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "enable_external_access = false",
    "lock_configuration = true",
)
"""Settings under which SQL reaches the tables alone: no file, no address, no extension, no variable of Python."""


@checked
def load(
    *folders: str | Path, skip_damaged: bool = False, parquet: str | Path | None = None
) -> "duckdb.DuckDBPyConnection":
    """An in-memory DuckDB connection with the tables `runs` and `metrics`. The folders are not changed.

    SQL on the connection can neither read nor write anything but its tables, whoever wrote it.

    Args:
      folders: of runs, as found by `ipsrl.records.discovery.find`; or of Parquet files that an earlier call wrote.
      skip_damaged: skip damaged runs and folders of Parquet files, with a line on stderr for each, instead of raising
        ValueError.
      parquet: a folder to write both tables to, which is read much faster than the runs; each file atomically.

    Raises:
      OSError: the Parquet files cannot be written.
      MemoryError: the tables do not fit into memory.
      ValueError: a folder does not exist or holds no run, a run is given twice, a JSON file, Parquet file or line of
        metrics.jsonl is damaged (except a truncated last line of a killed process, of which only that record is lost,
        with a line on stderr), `parquet` lies in the folder of a run or holds the runs, or DuckDB is not installed.
    """
    if not folders:
        raise ValueError("no folders are given: name one or more that hold runs")
    extras.require("duckdb")
    import duckdb

    if parquet is not None:
        require_possible(Path(parquet), "--parquet")
        require_outside_runs(parquet, "--parquet")
    of_parquet, paths, roots = [], {}, {}
    for folder in map(Path, folders):
        if all(file.exists() for file in parquet_files(folder).values()):
            of_parquet.append(folder)
            continue
        # One of the folders may be inside another.
        for path in find(folder):
            paths.setdefault(path.resolve(), path)
            roots.setdefault(path, folder)
    if parquet is not None and any(Path(parquet).resolve() in path.parents for path in paths):
        raise ValueError(f"--parquet={parquet} holds the runs, which its tables would hide; choose another folder")

    described = _undamaged(paths.values(), lambda path: _describe(path, roots[path]), skip_damaged)
    try:
        connection = _of_runs(list(described.values()), skip_damaged)
        for folder in _undamaged(of_parquet, check_parquet, skip_damaged):
            add_parquet(connection, folder)
    except duckdb.OutOfMemoryException as error:
        raise MemoryError("the tables of so many runs do not fit into memory: load fewer of them") from error
    except duckdb.Error as error:
        raise ValueError(f"the runs cannot be read together ({in_one_sentence(str(error), ())})") from error
    if parquet is not None:
        write_parquet(connection, Path(parquet))
    for setting in LOCKED:
        connection.execute(f"set {setting}")
    return connection


@checked
def select(
    connection: "duckdb.DuckDBPyConnection", sql: str, timeout: float | None = None
) -> tuple[list[str], list[tuple]]:
    """The column names and the rows of one SELECT on a connection of `load`, ended after `timeout` seconds, if given.

    Raises:
      ValueError: the statement is not one SELECT, DuckDB refuses it, it takes too long, or its answer is too large; the
        message is one sentence, with similar names for one that does not exist.
    """
    extras.require("duckdb")
    import duckdb

    require_readable(sql, "SQL")
    known = "select distinct column_name from duckdb_columns() where not internal order by all"
    columns = [column for (column,) in connection.execute(known).fetchall()]
    try:
        statements = connection.extract_statements(sql)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            raise ValueError(ONLY_READ)
        # A statement that DuckDB treats as a SELECT may still write: with x as (insert into runs ...) select ...
        connection.execute("begin transaction read only")
        watch = threading.Timer(timeout or 0.0, connection.interrupt)
        try:
            if timeout is not None:
                watch.start()
            cursor = connection.execute(statements[0])
            rows = cursor.fetchmany(MOST_ROWS + 1)
            if len(rows) > MOST_ROWS:
                raise ValueError(f"the answer has more than {MOST_ROWS:,} rows: add a limit, or average over rows")
            return [column[0] for column in cursor.description], rows
        finally:
            watch.cancel()
            connection.rollback()
    except duckdb.InterruptException as error:
        raise ValueError(
            f"the SQL has not ended after {timeout} s: ask for less, or allow more by --timeout"
        ) from error
    except duckdb.Error as error:
        raise ValueError(in_one_sentence(str(error), columns)) from error


def _of_runs(rows: Sequence[Mapping[str, Any]], skip_damaged: bool) -> "duckdb.DuckDBPyConnection":
    """A connection with both tables of the runs with these descriptions."""
    extras.require("duckdb")
    import duckdb

    connection = duckdb.connect(config=IN_MEMORY)
    try:
        structures = structures_of(connection, rows)
        # DuckDB ignores lines that are not records; the metric log decides whether more than the last one is damaged.
        if not all(map(is_of_record, structures)):
            no_record = "coalesce(json_type(json, '$.step') not in ('UBIGINT', 'BIGINT'), true)"
            doubtful = f"select distinct filename from {records_of(connection, rows)} where {no_record}"
            doubtful = [file for (file,) in connection.execute(doubtful).fetchall()]
            if damaged := set(doubtful).difference(_undamaged(doubtful, _check_metrics, skip_damaged)):
                rows = [row for row in rows if row["path"] + METRICS not in damaged]
                structures = structures_of(connection, rows)
        make_tables(connection, rows, structures)
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error:
        # Which of the runs DuckDB cannot read is seen from each alone; an internal error has ended this connection.
        by_path = {row["path"]: row for row in rows}
        kept = _undamaged(by_path, lambda path: _check_alone(by_path[path]), skip_damaged)
        if len(kept) == len(rows):
            raise
        return _of_runs([by_path[path] for path in kept], skip_damaged)
    return connection


def _undamaged(paths: Iterable, read: Callable[[Any], Any], skip_damaged: bool) -> dict:
    """Reads all paths; those for which `read` raises ValueError are skipped if `skip_damaged`."""
    kept = {}
    for path in counted(paths, "runs read"):
        try:
            kept[path] = read(path)
        except ValueError as error:
            if not skip_damaged:
                raise ValueError(f"{error}; --skip_damaged, or skip_damaged=True, leaves such runs out") from error
            say_left_out(str(error))
    return kept


def _describe(path: Path, root: Path) -> dict[str, Any]:
    """The row of a run found in `root`, without its metrics."""
    require_readable(str(path), "the folder")
    for name in READ:
        if link := link_out_of(path / name, root):
            raise ValueError(f"{link}, and other files of this machine are not read: copy it there")
    if (log := path / "metrics.jsonl").exists():
        require(log, "a file", follow=True)
        if metric_log.is_cut(log):
            say_left_out(f"the last line of {log}, which is cut")
    config = _read_object(path / "config.json")
    summary = _read_object(path / "summary.json") if (path / "summary.json").exists() else None
    written = [file.stat().st_mtime for name in ("metrics.jsonl", "summary.json") if (file := path / name).exists()]
    columns = config_columns({name: value for name, value in config.items() if name not in ("objective", "seed")})
    require_columns(len(columns), f"{path / 'config.json'} has", "settings")
    return {
        "path": str(path),
        "kind": "training" if "objective" in config else "experiment",
        "objective": config.get("objective"),
        "seed": seed_of(config),
        "complete": says_complete(summary),
        "started": _first_start(path / "environment.json"),
        "last_written": _utc(datetime.fromtimestamp(max(written), UTC)) if written else None,
        **columns,
        "summary": summary,
    }


def _check_metrics(file: str) -> None:
    for record in metric_log.read(file):
        _require_unicode(record, file)


def _check_alone(row: Mapping[str, Any]) -> None:
    """Raises ValueError if DuckDB cannot make tables of a run."""
    extras.require("duckdb")
    import duckdb

    if os.path.exists(row["path"] + METRICS):
        _check_metrics(row["path"] + METRICS)
    with duckdb.connect(config=IN_MEMORY) as connection:
        try:
            make_tables(connection, [row], structures_of(connection, [row]))
        except duckdb.Error as error:
            raise ValueError(f"{row['path']} cannot be read ({in_one_sentence(str(error), ())})") from error


def _read_object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise ValueError(f"{path} is damaged: it should hold an object")
    _require_unicode(value, path)
    return value


def _require_unicode(value: Any, path: str | Path) -> None:
    """Raises ValueError if a text, or a key, has half of a character: JSON can write it, but DuckDB not read it."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{path} is damaged: a text in it has {error.object[error.start]!a}, which is half of a character"
        ) from error


def _first_start(path: Path) -> str | None:
    """The time of the first start; None if environment.json is missing, or is not a list of starts."""
    starts = read_json(path) if path.exists() else []
    try:
        return _utc(datetime.fromisoformat(starts[0]["time"]))
    except (LookupError, TypeError, ValueError, OverflowError):
        return None


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
