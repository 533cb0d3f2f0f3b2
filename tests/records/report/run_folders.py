"""Run folders as training leaves them, for tests of reports."""

import json

# What would take over a page that reads it as HTML, as a script, as a template or as what Plotly makes of texts.
HOSTILE = (
    "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
    "<b>bold</b>\u2028{{script}}"
)


def write_run(
    path, objective="grpo", seed=0, steps=6, value=0.5, settings=None, complete=True, completion="x OR y", warnings=()
):
    """A run that was evaluated every third step and recovers `value` + seed / 100 at the end, and 0.1 at the start."""
    path.mkdir(parents=True)
    config = {
        "environment": "Hypergrid(dimensions=2, side=8)",
        "policy": "MLP(features=<bound method Hypergrid.features of Hypergrid(dimensions=2)>, hidden=(64, 64))",
        "objective": objective,
        "training": {"steps": steps, "group_size": 8},
        "seed": seed,
    }
    for name, setting in (settings or {}).items():
        (config["training"] if name in config["training"] else config)[name] = setting
    write(path / "config.json", config)
    start = {
        "time": "2026-01-01T00:00:00+0000",
        "python": "3.12.1",
        "jax": "0.10.2",
        "devices": ["cpu", "cpu"],
        "git_commit": "0123456789abcdef-dirty",
        "command": f"/home/me/.venv/bin/python -m experiments.hypergrid '--objectives={objective}'",
    }
    write(path / "environment.json", [start])
    end = value + seed / 100
    metrics = [{"step": 0, "evaluation/recovery": 0.1, "evaluation/validity": 1.0}]
    for step in range(1, steps + 1):
        metrics.append({"step": step, "reward": step / steps, "loss": 0.25})
        if step % 3 == 0 or step == steps:
            metrics[-1] |= {"evaluation/recovery": end * step / steps, "evaluation/validity": 1.0}
    write_lines(path / "metrics.jsonl", metrics)
    evaluated = [record["step"] for record in metrics if "evaluation/recovery" in record]
    write_lines(
        path / "outcomes.jsonl",
        [{"step": s, "ranked_shares": [0.5 + 0.4 * s / steps, 0.1], "rest": 0.0} for s in evaluated],
    )
    answers = [("y", 0.0, None), (completion, 1.0, "x OR y"), (completion, 1.0, "x OR y")]
    write_lines(
        path / "completions.jsonl",
        [
            {"step": s, "prompt_index": p, "prompt": f"prompt {p}", "completion": text, "reward": r, "outcome": name}
            for s in (0, steps)
            for p in (0, 1)
            for text, r, name in answers[: 3 if s == 0 else 2]
        ],
    )
    write_lines(path / "warnings.jsonl", [{"step": 2, "monitor": "low_entropy", "message": text} for text in warnings])
    if complete:
        write(path / "summary.json", {"complete": True, **metrics[-1]})
    return path


def write(path, value):
    path.write_text(json.dumps(value))


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
