"""SQL on results reads the two tables; what else it tries, or cannot have, is refused in one sentence."""

import json
import os
import sys

import duckdb
import pytest

from ipsrl.records import results
from ipsrl.records.sql import result_tables
from tests.records.recorded_experiment import rows, values, write_experiment


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "hypospace"
    write_experiment(path)
    return path


@pytest.fixture(scope="module")
def connection(folder):
    return results.load(folder)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select recovry from runs", "there is no column 'recovry': near it are recovery"),
        ("select r.RECOVERY_RATE from runs r", "there is no column 'RECOVERY_RATE': near it are recovery"),
        ("select * from run", "there is no table 'run': there are runs and metrics"),
        (f"select {'x' * 3000}", r"no column 'x{100}'\.\.\. \(3000 characters\): describe"),
        ("from which_secret('a', 'b')", "SQL reads the tables runs and metrics alone"),
        ("selec 1", 'syntax error at or near "selec"'),
        ("select sum(objective) from runs", r"No function matches the given name and argument types 'sum\(VARCHAR\)'"),
        # Before DuckDB 2.0 this is no SQL.
        (
            "with gone as (delete from runs returning *) select * from gone",
            "results are read-only: write one SELECT|A CTE needs a SELECT",
        ),
        # Before DuckDB 2.0 a COPY is no part of a SELECT.
        (
            "with x as (copy (select 'overwritten') to 'hypospace' (header false)) select 1",
            "SQL reads the tables runs and metrics alone: no other files, addresses or|A CTE needs a SELECT",
        ),
        ("select * from '/etc/passwd'", "there is no table '/etc/passwd': there are runs and metrics"),
        ("select * from sys", "there is no table 'sys': there are runs and metrics"),
        ("copy (pivot runs on objective using avg(reward)) to 'runs.csv'", "results are read-only: write one SELECT"),
        ("select 1; select 2", "results are read-only: write one SELECT"),
        ("", "results are read-only: write one SELECT"),
    ],
)
def test_sql_that_is_not_answered(connection, folder, monkeypatch, sql, message):
    monkeypatch.chdir(folder.parent)
    with pytest.raises(ValueError, match=message) as refused:
        results.select(connection, sql)
    assert "\n" not in str(refused.value)
    assert values(connection, "select count(*) from runs") == [3]
    assert os.listdir() == ["hypospace"]


def test_in_a_notebook_sql_reads_and_writes_nothing_else_either(connection, folder):
    for sql in ("from read_text('/etc/passwd')", "copy runs to 'runs.csv'", "attach 'more.db'", "install httpfs"):
        with pytest.raises(duckdb.PermissionException):
            connection.execute(sql)
    with pytest.raises(duckdb.Error, match="configuration"):
        connection.execute("set enable_external_access = true")
    with pytest.raises(duckdb.CatalogException):
        connection.execute("from folder")
    assert connection.sql("select count(*) from runs").fetchall() == [(3,)]


def test_a_pivot_is_answered(connection):
    pivot = "pivot runs on objective in ('grpo', 'maxrl(a=1)') using avg(recovery) group by kind"
    # In no order: DuckDB groups in several threads.
    assert {"kind": "training", "grpo": 0.4, "maxrl(a=1)": 0.1} in rows(connection, pivot)


def test_a_query_too_large_for_memory_is_refused_and_writes_nothing(folder, monkeypatch):
    monkeypatch.setitem(results.IN_MEMORY, "memory_limit", "400MB")
    monkeypatch.chdir(folder.parent)
    connection = results.load(folder)
    with pytest.raises(ValueError, match="there is too little memory: ask for fewer rows or columns"):
        results.select(connection, "from range(100000000) order by hash(range)")
    assert values(connection, "select count(*) from runs") == [3]
    assert os.listdir() == ["hypospace"]


def test_tables_too_large_for_memory_are_refused(folder, monkeypatch):
    monkeypatch.setitem(results.IN_MEMORY, "memory_limit", "1MB")
    with pytest.raises(MemoryError, match="the tables of so many runs do not fit into memory"):
        results.load(folder)


def test_an_answer_of_too_many_rows_is_refused_before_all_are_read(folder, monkeypatch):
    monkeypatch.setattr(results, "MOST_ROWS", 3)
    connection = results.load(folder)
    assert len(values(connection, "from runs")) == 3
    with pytest.raises(ValueError, match="the answer has more than 3 rows: add a limit, or average over rows"):
        results.select(connection, "from range(1000000000000)")


def test_sql_that_does_not_end_is_ended(connection):
    endless = "select count(*) from range(100000000) as a, range(100000000) as b"
    with pytest.raises(ValueError, match=r"has not ended after 0.1 s: ask for less, or allow more by --timeout"):
        results.select(connection, endless, timeout=0.1)
    assert results.select(connection, "select 1 as one", timeout=60.0) == (["one"], [(1,)])


@pytest.mark.parametrize(
    ("name", "most", "message"),
    [
        ("config.json", 4, r"config.json has 6 settings, a table has at most 4 columns"),
        ("metrics.jsonl", 6, r"the runs have \d+ settings and metrics, a table has at most 6 columns"),
    ],
)
def test_tables_of_too_many_columns_are_refused(name, most, message, tmp_path, monkeypatch):
    monkeypatch.setattr(result_tables, "MOST_COLUMNS", most)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    many = {"step": 1, **{f"name_{number}": number for number in range(5)}}
    (tmp_path / "run" / name).write_text(json.dumps(many) + "\n")
    with pytest.raises(ValueError, match=message):
        results.load(tmp_path)


def test_a_time_with_a_zone_is_asked_for_as_text(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pytz", None)
    connection = results.load(folder)
    with pytest.raises(ValueError, match="needs the package pytz, which is not installed"):
        results.select(connection, "select now()")
    assert len(values(connection, "select now()::text")) == 1
