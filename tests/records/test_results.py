import json
import math
import re
import sys
from datetime import datetime

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.records import metric_log, results
from ipsrl.records.json_files import write_json
from ipsrl.records.sql.sql_texts import TABLES
from tests.records.folder_bytes import contents
from tests.records.recorded_experiment import GRPO, rows, values, write_experiment, write_run


@pytest.fixture
def folder(tmp_path):
    write_experiment(tmp_path / "hypospace")
    return tmp_path / "hypospace"


def test_every_folder_is_a_run_and_every_record_a_row(folder):
    before = contents(folder)
    connection = results.load(folder)
    experiment, first, second = rows(connection, "from runs")
    written = [row.pop("last_written") for row in (experiment, first, second)]
    assert all(datetime(2026, 1, 1) < time < datetime.now() for time in written)
    assert experiment == {
        "path": str(folder),
        "kind": "experiment",
        "complete": True,
        "objectives": "grpo,maxrl",
        "seeds": "0:2",
        "learning_rate": 0.1,
        "summary": '{"complete":true,"agrees":[true,2]}',
    }
    assert first == {
        "path": str(folder / "grpo" / "seed_0"),
        "kind": "training",
        "objective": "grpo",
        "seed": 0,
        "complete": True,
        "started": datetime(2026, 1, 2, 3, 4, 5),
        "environment": "Bandit(rewards=(1.0, 1.0))",
        "steps": 2,
        "learning_rate": 0.1,
        "rules": '["a","b"]',
        "epochs": 3,
        "warm_start_learning_rate": 0.5,
        "share": 0.6,
        "step": 2,
        "reward": 0.3,
        "loss": pytest.approx(math.nan, nan_ok=True),
        "rule": "none",
        "recovery": 0.4,
        "evaluation_reward": 0.5,
        "summary": '{"complete":true,"reward":0.3}',
    }
    assert (second["objective"], second["seed"], second["complete"], second["step"]) == ("maxrl(a=1)", 1, False, 1)
    assert "summary" not in second

    metrics = rows(connection, "from metrics")
    assert [(row["objective"], row["step"]) for row in metrics] == [
        *(("grpo", step) for step in range(3)),
        *(("maxrl(a=1)", step) for step in range(2)),
    ]
    assert metrics[2] == {name: first[name] for name in ("path", "objective", "seed", "step", "reward", "recovery")}
    assert contents(folder) == before


def test_numbers_are_numbers_however_they_were_written(tmp_path):
    write_run(tmp_path / "a", {"objective": "grpo", "seed": 1, "rate": 1}, [{"x": 1, "good": True, "never": math.inf}])
    write_run(tmp_path / "b", {"objective": "grpo", "seed": 2, "rate": 0.5}, [{"x": 0.5, "good": False}])
    connection = results.load(tmp_path)
    assert values(connection, "select sum(x), sum(rate), bool_or(good), max(seed) from runs") == [(1.5, 1.5, True, 2)]
    assert math.isnan(values(connection, "select max(never) from runs")[0])


def test_names_that_are_taken(tmp_path):
    config = {"path": "mine", "step": 4, "A": 1, "training": {"b": 2, "inner": {"a": 3}}, "other": {"b": 4, "B": 5}}
    write_run(tmp_path / "run", config, [{"b": 0.5, "path": 0.25, "x/y": 1.0, "evaluation/b": 2.0}], {})
    connection = results.load(tmp_path)
    (row,) = rows(connection, "from runs")
    of_config = {
        "config_path": "mine",
        "config_step": 4,
        "A": 1,
        "b": 2,
        "inner_a": 3,
        "other_b": 4,
        "config_other_B": 5,
    }
    of_metrics = {"step": 0, "last_b": 0.5, "metric_path": 0.25, "x_y": 1.0, "evaluation_b": 2.0}
    assert {name: row[name] for name in list(row)[4:-1]} == of_config | of_metrics


def test_a_folder_with_many_numbers_of_outcomes_has_a_row_for_each(tmp_path):
    """Records as written by `experiments.many_outcomes`."""
    records = [
        {"objective": "grpo", "num_outcomes": count, "seed": seed, "share": count / (seed + step)}
        for count in (16, 64)
        for seed in (1, 2)
        for step in (1, 3)
    ]
    write_run(tmp_path / "run", {"objectives": "grpo", "num_outcomes": "16,64", "seeds": "1:3"}, records)
    connection = results.load(tmp_path, parquet=tmp_path / "tables")
    assert values(connection, "select objective, last_num_outcomes, seed, share, num_outcomes from runs") == [
        ("grpo", 16, 1, 4.0, "16,64"),
        ("grpo", 16, 2, 3.2, "16,64"),
        ("grpo", 64, 1, 16.0, "16,64"),
        ("grpo", 64, 2, 12.8, "16,64"),
    ]
    assert values(results.load(tmp_path / "tables"), "select count(*) from runs") == [4]


def test_a_run_that_has_just_begun(tmp_path):
    """Its start is written before anything else."""
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "config.json", {"objectives": "reinforce", "seeds": "3"})
    write_json(tmp_path / "run" / "environment.json", [{"time": "2026-01-02T03:04:05+0000"}])
    (row,) = rows(results.load(tmp_path), "from runs")
    assert (row["seed"], row["complete"], row["started"]) == (3, False, datetime(2026, 1, 2, 3, 4, 5))
    assert "last_written" not in row


def test_runs_of_different_ages_stand_in_one_table(tmp_path):
    write_run(tmp_path / "old", {"objective": "grpo", "seed": 0, "batch": 8}, [{"return": 0.5}], {})
    write_run(tmp_path / "new", {"objective": {"name": "grpo"}, "seed": "zero", "batch": "8,16"}, [{"reward": 0.5}], {})
    connection = results.load(tmp_path)
    assert values(connection, 'select objective, seed, batch, "return", reward from runs order by all') == [
        ("grpo", 0, "8", 0.5, None),
        ('{"name":"grpo"}', None, "8,16", None, 0.5),
    ]


@settings(deadline=None, max_examples=15)
@given(
    records=st.lists(
        st.dictionaries(
            st.sampled_from(["reward", "evaluation/reward", "evaluation/recovery", 'odd "name"\\', "null"]),
            st.floats(allow_subnormal=False) | st.integers(-(2**31), 2**31),
        )
    ),
    cut=st.integers(0, 300),
)
def test_metrics_are_those_of_the_log_however_it_was_cut(tmp_path_factory, records, cut):
    path = tmp_path_factory.mktemp("log") / "run"
    write_run(path, {"objective": "grpo", "seed": 0}, records)
    whole = (path / "metrics.jsonl").read_bytes()
    kept = whole[: max(0, len(whole) - cut)]
    (path / "metrics.jsonl").write_bytes(kept)
    connection = results.load(path)
    names = {"path": None, "objective": None, "seed": None, "step": "step", "reward": "reward", "null": "null"}
    names |= {"recovery": "evaluation/recovery", "odd_name_": 'odd "name"\\'}
    shown = rows(connection, "from metrics")
    logged = metric_log.read(path / "metrics.jsonl")
    # A record that has lost nothing but the end of its line is shown.
    assert len(shown) == len(logged) + kept.endswith(b"}")
    has_reward = any("reward" in json.loads(line) for line in kept.splitlines() if line.endswith(b"}"))
    names["evaluation_reward" if has_reward else "reward"] = "evaluation/reward"
    for row, record in zip(shown, logged, strict=False):
        found = {names[name]: value for name, value in row.items() if names[name]}
        assert found == pytest.approx(record, nan_ok=True, rel=1e-15)


@pytest.mark.parametrize("name", ["a=1", "x[1]*?{a,b}[!a]", 'it\'s "quoted" é', "back\\slash"])
def test_any_folder_name_will_do(tmp_path, name):
    write_run(tmp_path / name / "run", GRPO, [{"reward": 0.5}])
    connection = results.load(tmp_path / name, parquet=tmp_path / name / "tables")
    assert values(connection, "select path, reward from runs") == [(str(tmp_path / name / "run"), 0.5)]
    assert values(connection, "select path, reward from metrics") == [(str(tmp_path / name / "run"), 0.5)]
    assert "a" not in [column for column, *_ in results.select(connection, "describe runs")[1]]
    assert values(results.load(tmp_path / name / "tables"), "select reward from runs") == [0.5]


def test_folders_inside_each_other_are_read_once(folder, monkeypatch):
    (folder / "grpo" / "seed_0" / "checkpoints" / "model").mkdir(parents=True)
    write_run(folder / "grpo" / "seed_0" / "checkpoints" / "model" / "1", GRPO, [{"reward": 1.0}])
    monkeypatch.chdir(folder)
    connection = results.load(folder, ".", folder / "grpo")
    assert values(connection, "select count(*) from runs") == [3]


def test_an_empty_log_and_a_run_without_one(tmp_path):
    write_run(tmp_path / "begun", {"objective": "grpo", "seed": 0})
    write_run(tmp_path / "done", {"group_size": 8}, summary={"agrees": True})
    (tmp_path / "done" / "metrics.jsonl").unlink()
    write_run(tmp_path / "no_run", {"group_size": 8})
    (tmp_path / "no_run" / "metrics.jsonl").unlink()
    connection = results.load(tmp_path)
    assert values(connection, "select kind, complete, summary->>'$.agrees' from runs order by all") == [
        ("experiment", True, "true"),
        ("training", False, None),
    ]
    assert results.select(connection, "from metrics") == (["path", "objective", "seed", "step"], [])


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config.json", '{"seed": ', "{file} is not valid JSON"),
        ("config.json", "[1]", "{file} is damaged: it should hold an object"),
        (
            "config.json",
            '{"objective": "\\ud800"}',
            r"{file} is damaged: a text in it has '\ud800', which is half of a",
        ),
        ("metrics.jsonl", '{"step": 0}\n{"step": "x"}\n', "line 2 of {file} is not a record"),
        ("metrics.jsonl", '{"step": 0}\n[1]\n', "line 2 of {file} is not a record"),
        ("metrics.jsonl", '{"step": 1, "x": "\\ud800"}\n', r"{file} is damaged: a text in it has '\ud800', which"),
        ("metrics.jsonl", f'{{"step": 1, "x": {"[" * 200}{"]" * 200}}}\n', "{run} cannot be read (Scalar function"),
    ],
)
def test_a_damaged_run_is_named_or_left_out(folder, capsys, file, text, message):
    run, other = folder / "grpo" / "seed_0", folder / "maxrl-a=1" / "seed_1"
    (run / file).write_text(text)
    message = message.replace("{file}", str(run / file)).replace("{run}", str(run))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}.*; --skip_damaged, or skip_damaged=True, leaves such"):
        results.load(folder)
    connection = results.load(folder, skip_damaged=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"left out: {message}")
    assert values(connection, "select path from runs") == [str(folder), str(other)]
    assert values(connection, "select distinct path from metrics") == [str(other)]


def test_names_that_differ_little_or_are_empty(tmp_path):
    config = {"": 1, "A": 2, "a": 3, "config_a": 4, "x": {"": 5, "a": 6}}
    write_run(
        tmp_path / "run", config, [{"R": 0.5, "r": math.nan, "a/b": 1.0, "a_b": 2.0, "A b": "x", "A.b": 4, "": 5.0}]
    )
    connection = results.load(tmp_path)
    (row,) = rows(connection, "from metrics")
    metrics = {"R": 0.5, "a_b": 1.0, "metric_a_b": 2.0, "metric_A_b_2": "x", "metric_A_b_3": 4.0, "metric_": 5.0}
    assert {name: row[name] for name in metrics} == metrics
    assert math.isnan(row["metric_r"])
    asked = 'select config_, "A", config_a, config_config_a, x_, x_a from runs'
    assert values(connection, asked) == [(1, 2, 3, 4, 5, 6)]


def test_a_log_that_is_cut_is_said(folder, capsys):
    with (folder / "grpo" / "seed_0" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "rew')
    assert values(results.load(folder), "select count(*) from metrics") == [5]
    assert capsys.readouterr().err == f"left out: the last line of {folder}/grpo/seed_0/metrics.jsonl, which is cut\n"


@pytest.mark.parametrize(
    "starts", [{}, [], [{"jax": "0.11"}], [{"time": "yesterday"}], [{"time": "0001-01-01T00:00:00+14:00"}]]
)
def test_starts_that_say_no_time(folder, starts):
    write_json(folder / "grpo" / "seed_0" / "environment.json", starts)
    assert values(results.load(folder), "select count(started) from runs") == [0]


def test_parquet_files_hold_the_same_tables(folder, tmp_path):
    for _ in range(2):
        first = results.load(folder / "grpo", parquet=tmp_path / "tables")
    assert sorted(file.name for file in (tmp_path / "tables").iterdir()) == ["metrics.parquet", "runs.parquet"]
    again = results.load(tmp_path / "tables")
    for table in TABLES:
        for query in (f"describe {table}", f"from {table}"):
            assert repr(results.select(again, query)) == repr(results.select(first, query))
    both = results.load(tmp_path / "tables", folder / "maxrl-a=1")
    assert values(both, "select objective, recovery from runs order by seed") == [("grpo", 0.4), ("maxrl(a=1)", 0.1)]
    with pytest.raises(ValueError, match=r"seed_0 is given twice: give its folder or its Parquet files"):
        results.load(tmp_path / "tables", folder)


def test_parquet_files_that_cannot_be_written(folder, tmp_path):
    # Nobody may write there, not even root.
    with pytest.raises(OSError, match=r"cannot write /proc/runs.parquet: No such file"):
        results.load(folder, parquet="/proc")
    (tmp_path / "tables" / "runs.parquet").mkdir(parents=True)
    with pytest.raises(OSError, match=r"Is a directory"):
        results.load(folder, parquet=tmp_path / "tables")
    assert [file.name for file in (tmp_path / "tables").iterdir()] == ["runs.parquet"]


@pytest.mark.parametrize("where", ["", "grpo/seed_0", "grpo/seed_0/checkpoints/x", "../link/x", ".."])
def test_parquet_files_are_not_written_where_they_would_hide_runs(folder, tmp_path, where):
    (tmp_path / "link").symlink_to(folder / "grpo" / "seed_0")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"^--parquet=.* (lies in the folder of a run|holds the runs), "):
        results.load(folder, parquet=folder / where)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-50]), "is damaged: it cannot be read as Parquet"),
        (lambda file: (file.unlink(), file.mkdir()), "is damaged: it cannot be read as Parquet"),
        (lambda file: duckdb.sql("select 1 as x").write_parquet(str(file)), "is not the table {table}: its column"),
    ],
)
def test_damaged_parquet_files_are_named_or_left_out(folder, tmp_path, capsys, table, harm, message):
    results.load(folder / "grpo", parquet=tmp_path / "tables").close()
    file = tmp_path / "tables" / f"{table}.parquet"
    harm(file)
    message = f"{file} {message.replace('{table}', table)}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}.*; --skip_damaged, or skip_damaged=True, leaves such"):
        results.load(tmp_path / "tables", folder / "maxrl-a=1")
    connection = results.load(tmp_path / "tables", folder / "maxrl-a=1", skip_damaged=True)
    assert capsys.readouterr().err.startswith(f"left out: {message}")
    assert values(connection, "select objective from runs") == ["maxrl(a=1)"]


def test_without_duckdb_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ValueError, match=r'not installed: pip install -e "\.\[analysis\]"'):
        results.load(folder)
