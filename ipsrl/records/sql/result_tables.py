"""The tables `runs` and `metrics` of `ipsrl.records.results`, made by DuckDB from the files of runs."""

import glob
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipsrl.records.discovery import labels_of
from ipsrl.records.sql.result_columns import DESCRIPTION, TAKEN, first_free, metric_columns, metric_types, type_of
from ipsrl.records.sql.sql_texts import identifier, literal

if TYPE_CHECKING:
    import duckdb

METRICS = "/metrics.jsonl"
MOST_COLUMNS = 2000
"""Most columns of a table: DuckDB needs ten seconds for so many, and for twice as many four times as long."""


def require_columns(number: int, whose: str, what: str) -> None:
    """Raises ValueError if a table would have too many columns."""
    if number > MOST_COLUMNS:
        raise ValueError(f"{whose} {number:,} {what}, a table has at most {MOST_COLUMNS:,} columns: load fewer runs")


def records_of(connection: "duckdb.DuckDBPyConnection", rows: Iterable[Mapping[str, Any]]) -> str:
    """A table expression with `filename` and `json` of all records, in order; `json` is NULL if a line is not JSON."""
    files = [glob.escape(row["path"] + METRICS) for row in rows if os.path.exists(row["path"] + METRICS)]
    if not files:
        return "(select null::varchar as filename, null::json as json where false)"
    connection.execute("set variable metrics_files = ?", [files])
    # Folders such as floor=0.2 would otherwise be read as partitions.
    return (
        "read_json_objects(getvariable('metrics_files'), format = 'newline_delimited', ignore_errors = true, "
        "filename = true, hive_partitioning = false)"
    )


def structures_of(connection: "duckdb.DuckDBPyConnection", rows: Iterable[Mapping[str, Any]]) -> set[str | None]:
    """The distinct structures of records, as JSON with types instead of values; None for a line that is not JSON."""
    structures = connection.execute(f"select distinct json_structure(json) from {records_of(connection, rows)}")
    return {structure for (structure,) in structures.fetchall()}


def is_of_record(structure: str | None) -> bool:
    """Whether a line with this structure is a record: an object with a whole number `step`."""
    types = None if structure is None else json.loads(structure)
    return isinstance(types, dict) and types.get("step") in ("UBIGINT", "BIGINT")


def make_tables(
    connection: "duckdb.DuckDBPyConnection", rows: Sequence[Mapping[str, Any]], structures: Iterable[str | None]
) -> None:
    """Makes `runs` from the descriptions of folders, and `metrics` from their files."""
    of_config = dict.fromkeys(column for row in rows for column in row if column not in (*DESCRIPTION, "summary"))
    types = {
        **DESCRIPTION,
        **{column: type_of([row[column] for row in rows if column in row]) for column in of_config},
        "summary": "JSON",
    }
    connection.execute(
        "create temp table described as select unnest(from_json(?, ?), max_depth := 2)",
        [json.dumps(rows), json.dumps([types])],
    )

    metrics = metric_types(structures)
    require_columns(len(of_config) + len(metrics), "the runs have", "settings and metrics")
    columns = metric_columns(metrics)
    # Names of fields are not empty, and differ in more than their case; the few other metrics are read one by one.
    fields = {metric.lower(): metric for metric in reversed(metrics) if metric}.values()
    values = "".join(
        f", {f'value.{identifier(metric)}' if metric in fields else _in_line(metric, metrics[metric])}"
        f" as {identifier(column)}"
        for metric, column in columns.items()
    )
    # The log writes non-finite numbers as null, which must not be mixed up with missing ones.
    connection.execute(
        f"""
        create table metrics as
        select
            described.path,
            coalesce(value.objective, described.objective) as objective,
            coalesce(value.seed, described.seed) as seed,
            value.step{values}
        from (
            select
                filename,
                row_number() over () as record,
                replace(json, '": null', '": NaN') as line,
                from_json(line, ?) as value
            from {records_of(connection, rows)}
            where json_type(json) = 'OBJECT'
        )
        join described on filename = described.path || '{METRICS}'
        order by record
        """,
        [json.dumps({metric: metrics[metric] for metric in fields})],
    )

    labels = dict.fromkeys(["objective", "seed", *(label for row in rows for label in labels_of(Path(row["path"])))])
    whose = ", ".join(["path", *(identifier(columns.get(label, label)) for label in labels if label in metrics)])
    taken = {column.lower() for column in (*TAKEN, *of_config)}
    last = "".join(
        f", arg_max({identifier(column)}, metrics.rowid) as {identifier(first_free([column, f'last_{column}'], taken))}"
        for column in columns.values()
    )
    connection.execute(
        f"""
        create table runs as
        select
            described.path,
            described.kind,
            coalesce(last.objective, described.objective) as objective,
            coalesce(last.seed, described.seed) as seed,
            described.* exclude (path, kind, objective, seed, summary),
            last.* exclude (path, objective, seed, first_record),
            described.summary
        from described
        left join (
            select path, objective, seed, min(metrics.rowid) as first_record, arg_max(step, metrics.rowid) as step{last}
            from metrics
            group by {whose}
        ) as last
        on described.path = last.path
        order by described.rowid, first_record
        """
    )
    connection.execute("drop table described")


def _in_line(metric: str, type_name: str) -> str:
    """SQL for a metric in the text of a record."""
    pointer = "/" + metric.replace("~", "~0").replace("/", "~1")
    return f"from_json(json_extract(line, {literal(pointer)}), '\"{type_name}\"')"
