"""An experiment with records of all kinds, and what SQL gives of them."""

import math

from ipsrl.records import results
from ipsrl.records.json_files import write_json
from ipsrl.records.metric_log import MetricLog

GRPO = {
    "objective": "grpo",
    "seed": 0,
    "environment": "Bandit(rewards=(1.0, 1.0))",
    "training": {"steps": 2, "learning_rate": 0.1, "rules": ["a", "b"], "off_policy": None, "batching": {"epochs": 3}},
    "warm_start": {"learning_rate": 0.5, "share": 0.6},
}


def write_run(path, config, records=(), summary=None):
    path.mkdir(parents=True)
    write_json(path / "config.json", config)
    with MetricLog(path / "metrics.jsonl") as log:
        for step, record in enumerate(records):
            log.write(step, record)
    if summary is not None:
        write_json(path / "summary.json", {"complete": True, **summary})


def rows(connection, sql):
    """Rows as dicts, without what is NULL."""
    columns, found = results.select(connection, sql)
    return [{name: v for name, v in zip(columns, row, strict=True) if v is not None} for row in found]


def values(connection, sql):
    """The rows of a query, or its values where it has one column."""
    columns, found = results.select(connection, sql)
    return [row[0] for row in found] if len(columns) == 1 else found


def write_experiment(path):
    """Writes an experiment with two training runs, of which one is not complete."""
    write_run(path, {"objectives": "grpo,maxrl", "seeds": "0:2", "learning_rate": 0.1}, summary={"agrees": [True, 2]})
    records = [
        {"evaluation/recovery": 0.1, "evaluation/reward": 0.5},
        {"reward": 0.2, "loss": math.nan, "rule": "none"},
        {"reward": 0.3, "evaluation/recovery": 0.4},
    ]
    write_run(path / "grpo" / "seed_0", GRPO, records, summary={"reward": 0.3})
    start = {"time": "2026-01-02T04:04:05+0100", "jax": "0.11"}
    write_json(path / "grpo" / "seed_0" / "environment.json", [start, {"time": "2026-02-02T03:04:05+0000"}])
    write_run(path / "maxrl-a=1" / "seed_1", {**GRPO, "objective": "maxrl(a=1)", "seed": 1}, records[:2])
