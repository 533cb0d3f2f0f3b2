import csv
import datetime
import functools
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ipsrl.records.json_files import write_json
from ipsrl.records.metric_log import MetricLog
from scripts.results import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    for objective, seed, reward in (("grpo", 0, 0.25), ("grpo", 1, 1 / 3), ("ips_grpo(floor=0.2)", 0, float("nan"))):
        path = tmp_path / "runs" / objective / f"seed_{seed}"
        path.mkdir(parents=True)
        write_json(path / "config.json", {"objective": objective, "seed": seed, "training": {"steps": 1}})
        with MetricLog(path / "metrics.jsonl") as log:
            log.write(0, {"evaluation/recovery": 0.5})
            log.write(1, {"reward": reward})
        if seed == 0:
            write_json(path / "summary.json", {"complete": True})
    return tmp_path / "runs"


QUESTION = "select objective, seed, reward, summary from runs order by all"


def test_without_a_question_runs_are_counted_and_columns_listed(folder, capsys):
    main([str(folder)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["kind", "objective", "runs", "complete", "last_written"]
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["training", "grpo", "2", "1"],
        ["training", "ips_grpo(floor=0.2)", "1", "1"],
    ]
    assert [line.partition(": ")[::2] for line in lines[4:] if line] == [
        (
            "columns of runs",
            "path, kind, objective, seed, complete, started, last_written, steps, step, reward, recovery, summary",
        ),
        ("columns of metrics", "path, objective, seed, step, reward, recovery"),
    ]


def test_a_table_has_four_digits_and_columns_that_line_up(folder, capsys):
    main([str(folder), f"--sql={QUESTION}"])
    assert capsys.readouterr().out == (
        "objective            seed  reward  summary\n"
        'grpo                 0     0.25    {"complete":true}\n'
        "grpo                 1     0.3333  -\n"
        'ips_grpo(floor=0.2)  0     nan     {"complete":true}\n'
    )


def test_csv_and_json_have_all_digits(folder, tmp_path, capsys):
    main([str(folder), f"--sql={QUESTION}", "--format=csv"])
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows == [
        ["objective", "seed", "reward", "summary"],
        ["grpo", "0", "0.25", '{"complete":true}'],
        ["grpo", "1", repr(1 / 3), ""],
        ["ips_grpo(floor=0.2)", "0", "nan", '{"complete":true}'],
    ]
    out = tmp_path / "answer.json"
    main(
        [str(folder), "--sql=select seed, reward, 0.5 as half, last_written from runs", "--format=json", f"--out={out}"]
    )
    assert capsys.readouterr().out == ""
    answers = json.loads(out.read_text())
    assert [(answer["seed"], answer["reward"], answer["half"]) for answer in answers] == [
        (0, 0.25, 0.5),
        (1, 1 / 3, 0.5),
        (0, None, 0.5),
    ]
    assert answers[0]["last_written"].startswith("20")


def test_what_json_has_not_is_a_text(folder, capsys, request):
    values = "interval 1 day as a, date '2026-01-02' as b, ['x'::blob, null] as c, {'d': 0.5::decimal(2, 1)} as d"
    main([str(folder), "--format=json", f"--sql=select {values}, map {{1: time '01:02'}} as e"])
    assert json.loads(capsys.readouterr().out) == [
        {
            "a": str(datetime.timedelta(1)),
            "b": "2026-01-02",
            "c": ["b'x'", None],
            "d": {"d": 0.5},
            "e": {"1": "01:02:00"},
        }
    ]
    # DuckDB takes half a minute for a value that is too deep for Python's own limit.
    request.addfinalizer(functools.partial(sys.setrecursionlimit, sys.getrecursionlimit()))
    sys.setrecursionlimit(300)
    with pytest.raises(SystemExit, match=r"^error: the answer is nested too deeply for JSON$"):
        main([str(folder), "--format=json", f"--sql=select {'[' * 300}1{']' * 300}"])


@pytest.mark.parametrize(("form", "name"), [("table", "a.txt"), ("csv", "a.csv"), ("json", "a.json")])
def test_an_answer_replaces_only_a_file_of_its_kind(folder, tmp_path, form, name):
    out = tmp_path / name
    for file in (out, tmp_path / "a.md"):
        file.write_text("precious")
    main([str(folder), f"--format={form}", f"--out={out}"])
    assert "objective" in out.read_text()
    with pytest.raises(SystemExit, match=f"^error: --out=.*/a.md must end in {out.suffix} for --format={form}$"):
        main([str(folder), f"--format={form}", f"--out={tmp_path}/a.md"])
    assert (tmp_path / "a.md").read_text() == "precious"


def test_one_sentence_where_there_is_no_answer(folder):
    (folder / "grpo" / "seed_0" / "config.json").write_text('{"seed"')
    for arguments, message in (
        ([str(folder)], f"error: {folder}/grpo/seed_0/config.json is not valid JSON"),
        ([str(folder), "--skip_damaged", "--sql=select rewrad from runs"], "error: there is no column 'rewrad': near"),
        ([str(folder), "--skip_damaged", f"--parquet={folder}/grpo/seed_0/config.json"], "error: --parquet "),
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert str(ended.value).startswith(message)
        assert "\n" not in str(ended.value)


def test_a_reader_that_has_seen_enough(folder):
    command = f"{sys.executable} scripts/results.py {folder} --format=csv --sql='select * from range(100000)' | head -1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("range\n", "")
