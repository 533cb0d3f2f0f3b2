"""Generated SQL on results: nothing outside of the two tables is read, and nothing is written."""

import os

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipsrl.records import results
from tests.hostile.ended import value_or_sentence
from tests.records.folder_bytes import contents
from tests.tiers import fuzzed

pytestmark = pytest.mark.slow

SECRET = "what-nobody-may-read"
FILES = ("secret.csv", "secret.json", "secret.txt", "new.csv", "sub/secret.parquet", "*", "runs.db", "secret")
# Of these one call may take gigabytes, sleep, or draw at random; none of them opens anything.
LEFT_OUT = {"repeat", "range", "generate_series", "sleep_ms", "write_log", "repeat_row", "lpad", "rpad", "bar", "dbgen"}


@pytest.fixture(scope="module")
def functions():
    """The names of all functions of DuckDB."""
    connection = duckdb.connect()
    every = connection.execute("select distinct function_name from duckdb_functions()").fetchall()
    return sorted(name for (name,) in every if name.isidentifier() and name not in LEFT_OUT)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A folder with files that hold the secret, and tables made in it."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "sub").mkdir()
    for name in ("secret.csv", "secret.txt", "secret.json"):
        (folder / name).write_text(f'{{"a": "{SECRET}"}}\n' * 2)
    duckdb.sql(f"select '{SECRET}' as a").write_parquet(str(folder / "sub/secret.parquet"))
    run = folder / "run"
    run.mkdir()
    (run / "config.json").write_text('{"objective": "grpo", "seed": 0}')
    (run / "metrics.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
    connection = results.load(run)
    return folder, connection


STATEMENTS = """
select {function}({arguments})
select * from {function}({arguments})
call {function}({arguments})
from '{path}'
from "{path}"
copy runs to '{path}'
copy (select 1) to '{path}'
with x as (copy (select 1) to '{path}') select 1
attach '{path}' as other
export database '{path}'
import database '{path}'
load '{path}'
install '{path}'
set {setting} = '{path}'
reset {setting}
pragma {setting}
create table x as from '{path}'
create macro f() as table from '{path}'
create secret (type s3, key_id '{path}')
insert into runs from '{path}'
update runs set path = 'x'
drop table runs
prepare x as from '{path}'
explain analyze copy runs to '{path}'
pivot (from '{path}') on a
describe '{path}'
summarize '{path}'
show '{path}'
use '{path}'
vacuum
values ((select a from '{path}'))
"""
AROUND = """
{whole}
select 1; {whole}
select * from ({whole})
with y as ({whole}) select * from y
select * from runs where path in ({whole})
select * from query('{quoted}')
"""
PATHS = ("{name}", "{folder}/{name}", "file://{folder}/{name}", "http://127.0.0.1:9/{name}")
ARGUMENTS = ("'{path}'", "['{path}']", "'{path}', 1", "'{path}', '{path}'", "", "1", "'select * from ''{path}'''")
SETTINGS = ("enable_external_access", "allowed_paths", "home_directory", "lock_configuration", "x")


@st.composite
def statements(draw, functions, folder):
    """A statement that tries to reach something."""

    def one_of(texts, **values):
        return draw(st.sampled_from(texts)).format(**values)

    opening = [name for name in functions if "read" in name or "scan" in name or "glob" in name]
    path = one_of(PATHS, name=draw(st.sampled_from(FILES)), folder=folder)
    function = draw(st.sampled_from(functions) | st.sampled_from(opening))
    arguments, setting = one_of(ARGUMENTS, path=path), one_of(SETTINGS)
    whole = one_of(STATEMENTS.strip().splitlines(), function=function, path=path, arguments=arguments, setting=setting)
    return one_of(AROUND.strip().splitlines(), whole=whole, quoted=whole.replace("'", "''"))


def attempt(connection, folder, sql):
    """Everything that a statement gives, as text."""
    before, where = contents(folder), os.getcwd()
    os.chdir(folder)
    try:
        found = value_or_sentence(results.select, connection, sql)
    finally:
        os.chdir(where)
    assert contents(folder) == before
    return repr(found)


@fuzzed(150)
@given(data=st.data())
def test_nothing_outside_is_read_or_written(data, functions, loaded):
    folder, connection = loaded
    assert SECRET not in attempt(connection, folder, data.draw(statements(functions, folder)))
    _, rows = results.select(connection, "select objective, reward from runs")
    assert rows == [("grpo", 0.5)]


def test_an_open_door_is_found(loaded):
    """A connection that is not locked does let a statement read a file, and the fuzzer would see it."""
    folder, _ = loaded
    assert SECRET in attempt(duckdb.connect(), folder, f"from '{folder}/sub/secret.parquet'")
