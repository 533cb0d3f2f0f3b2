"""Monitors warn at the step at which they should, once, and say the same however often a run was interrupted."""

import json
import math
import os
import re
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl import objectives
from ipsrl.records import metric_log
from ipsrl.records.evaluation import Evaluation
from ipsrl.records.metric_log import MetricLog
from ipsrl.records.monitors import MONITORS, FittedLine, make_monitors
from ipsrl.records.run_folder import RunFolder
from ipsrl.records.run_log import RunLog
from ipsrl.records.warning_lines import WarningLines
from ipsrl.records.warning_log import WarningLog, initial_states, observe
from tests.records.bandit_run import interrupted_at, train_bandit


def watched(text: str, records):
    """The metrics of monitors for each record, and (step, monitor, finding) of each warning; steps count from 1."""
    monitors = make_monitors(text)
    states, metrics, warnings = initial_states(monitors), [], []
    for step, record in enumerate(records, start=1):
        states, of_record, begun = observe(monitors, states, record)
        metrics.append(of_record)
        warnings += [(step, name, finding) for name, finding in begun.items()]
    return metrics, warnings


def series(metric: str, values) -> list[dict[str, float]]:
    return [{metric: float(value)} for value in values]


ABOVE = {
    "degenerate_groups": "degenerate_groups",
    "reference_drift": "reference_kl",
    "batch_drift": "behaviour_kl",
    "clipped_tokens": "clip_fraction",
    "sampler_scorer_mismatch": "sampler_scorer_difference",
}


def test_entropy_that_stays_low_is_warned_of_at_its_fiftieth_step():
    low = [0.7] * 70 + [0.31] * 50
    metrics, warnings = watched("low_entropy", series("token_entropy", low))
    ((step, _, finding),) = warnings
    assert step == 120
    assert finding.message == "token entropy has been below 0.5 nats for 50 steps (0.31 now, 0.7 at its highest)"
    assert [found["monitor/low_entropy"] for found in metrics] == [0.0] * 119 + [1.0]


@pytest.mark.parametrize("entropy", [[0.3] * 200, [0.7] * 9 + [0.4] * 200, np.linspace(0.2, 0.45, 200)])
def test_low_entropy_that_was_never_much_higher_is_no_news_but_on_request(entropy):
    records = series("token_entropy", entropy)
    assert watched("low_entropy", records)[1] == []
    ((step, _, _),) = watched("low_entropy(of_highest=1)", records)[1]
    assert step == 50 + sum(np.array(entropy) >= 0.5)


@pytest.mark.parametrize(("name", "metric"), ABOVE.items())
def test_limits_from_above(name, metric):
    for limit in (0.25, MONITORS[name]().above):
        at_limit = series(metric, [limit] * 30)
        assert watched(f"{name}(above={limit}, steps=3)", at_limit)[1] == []
        ((step, warned, finding),) = watched(f"{name}(above={limit}, steps=3)", at_limit + series(metric, [9.0] * 9))[1]
        assert (step, warned) == (33, name)
        assert finding.message.endswith(f" above {limit:g} for 3 steps (9 now)")


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
def test_a_warning_begins_and_ends_with_as_many_steps_in_a_row(bad, steps):
    entropy = 1.0 - np.array(bad, float)
    metrics, warnings = watched(f"low_entropy(of_highest=1, steps={steps})", series("token_entropy", entropy))
    holds, expected = False, []
    for step in range(1, len(bad) + 1):
        if step >= steps and all(one != holds for one in bad[step - steps : step]):
            holds = not holds
            expected += [step] if holds else []
        assert metrics[step - 1]["monitor/low_entropy"] == holds
    assert [step for step, _, _ in warnings] == expected


def test_outcomes_that_fall():
    rise, keep, fall = np.linspace(2, 8, 30), np.full(40, 8.0), np.full(60, 3.0)
    metrics, warnings = watched("falling_outcomes", series("group_effective_outcomes", [*rise, *keep, *fall]))
    # The mean of 20 falls below 1 + 0.4 x 7 = 3.8 when 17 of them are 3: at step 87; then for 20 steps.
    ((step, _, finding),) = warnings
    assert step == 106
    assert finding.message == "the effective outcomes in a group have fallen from 8 to 3"
    kept = [found["monitor/effective_outcomes_kept"] for found in metrics[19:]]
    assert kept[:51] == [1.0] * 51
    assert kept[-1] == pytest.approx(2 / 7)
    assert metrics[:19] == [{}] * 19


def test_outcomes_that_come_back_halfway_have_not_come_back():
    """6 of 10 are lost, then 3 are won again: more than 4 but not more than 7 are there."""
    lost = [*[11.0] * 20, *[4.5] * 60]
    for back, warnings in ((7.5, 1), (8.5, 2)):
        values = [*lost, *[back] * 60, *[4.5] * 60]
        assert len(watched("falling_outcomes", series("group_effective_outcomes", values))[1]) == warnings


@pytest.mark.parametrize(
    "values",
    [[0.0] * 90, [1.0] * 90, [1.4] * 30 + [1.0] * 60, np.linspace(1, 9, 90), np.linspace(9, 4.5, 90)],
    ids=["none", "one", "hardly two", "rising", "falling slowly"],
)
def test_outcomes_that_do_not_fall_far(values):
    metrics, warnings = watched("falling_outcomes", series("group_effective_outcomes", values))
    assert warnings == []
    assert all(0 <= found["monitor/effective_outcomes_kept"] <= 1 for found in metrics[19:])


def law(entropy, a=0.3, b=1.2, noise=0.0):
    """Records that follow R = -a exp(H) + b, but for noise."""
    noise = noise * np.random.default_rng(1).standard_normal(len(entropy))
    reward = b - a * np.exp(entropy) + noise
    return [{"token_entropy": h, "reward": r} for h, r in zip(entropy.tolist(), reward.tolist(), strict=True)]


def test_the_entropy_law_is_found_and_its_ceiling_foretold():
    metrics, warnings = watched("entropy_law", law(np.linspace(1.2, 0.6, 60), noise=0.01))
    assert metrics[:49] == [{}] * 49
    assert metrics[-1]["monitor/entropy_law_slope"] == pytest.approx(0.3, abs=0.01)
    assert metrics[-1]["monitor/entropy_law_ceiling"] == pytest.approx(0.9, abs=0.02)
    assert 0.98 < metrics[-1]["monitor/entropy_law_r_squared"] < 1
    assert warnings == []


def test_the_entropy_law_warns_when_the_entropy_is_spent():
    entropy = np.concatenate([np.linspace(1.2, 0.0, 121), np.zeros(100)])
    # 90 % of exp(1.2) - 1 is spent at exp(H) = 1.23, H = 0.21: at step 101.
    ((step, _, finding),) = watched("entropy_law", law(entropy))[1]
    assert step == 150
    assert finding.message == (
        "reward follows 1.2 - 0.3 exp(entropy) (R squared 1.00), a ceiling of 0.9, and 100% of the entropy is spent at "
        "a reward of 0.9"
    )


def test_the_entropy_law_is_of_all_that_was_sampled():
    records = law(np.linspace(1.2, 0.0, 100))
    chosen = [{**record, "sampled_reward": record["reward"], "reward": 0.5} for record in records]
    assert watched("entropy_law", chosen) == watched("entropy_law", records)


@pytest.mark.parametrize(
    "records",
    [
        law(np.full(200, 0.4)),
        law(np.zeros(200)),
        law(np.linspace(1.2, 0.0, 200), a=0.0),
        law(np.linspace(1.2, 0.0, 200), a=-0.3),
        law(np.linspace(1.2, 0.0, 200), noise=1.0),
    ],
    ids=["constant entropy", "no entropy", "constant reward", "reward falls with entropy", "noise"],
)
def test_where_there_is_no_entropy_law_there_is_no_warning(records):
    assert watched("entropy_law", records)[1] == []


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 12.0), st.floats(-5.0, 5.0)), min_size=3, max_size=40, unique_by=lambda p: p[0])
)
def test_running_least_squares_are_those_of_all_points_at_once(points):
    line = FittedLine()
    for point in points:
        line = line.add(*point)
    x, y = np.array(points).T
    assert (line.count, line.highest) == (len(points), x.max())
    expected = [x.mean(), y.mean(), x.var() * len(x), y.var() * len(y), np.sum((x - x.mean()) * (y - y.mean()))]
    np.testing.assert_allclose([line.x, line.y, line.xx, line.yy, line.xy], expected, rtol=1e-9, atol=1e-9)


def everything(steps: int) -> list[dict[str, float]]:
    """Records of a run that collapses, with all metrics that monitors look at."""
    entropy = np.maximum(1.5 - np.arange(steps) / 60, 0.1)
    return [
        {
            **record,
            **dict.fromkeys(ABOVE.values(), 5.0 * (step > 40)),
            "group_effective_outcomes": 1 + 7 * math.exp(-step / 30),
        }
        for step, record in enumerate(law(entropy, noise=0.01))
    ]


def test_all_monitors_warn_of_a_run_that_goes_wrong_in_every_way_in_few_words():
    metrics, warnings = watched("all", everything(200))
    assert sorted(name for _, name, _ in warnings) == sorted(MONITORS)
    for _, name, finding in warnings:
        assert "\n" not in finding.message
        assert len(finding.message) < 260
        assert len(finding.short) < 60
        assert not set(re.findall(r"\w+", MONITORS[name].advice)) & set(objectives.names())
    further = ("effective_outcomes_kept", "entropy_law_slope", "entropy_law_ceiling", "entropy_law_r_squared")
    assert set(metrics[-1]) == {f"monitor/{name}" for name in (*MONITORS, *further)}


def test_what_a_run_does_not_log_is_passed_over_in_silence():
    assert watched("all", [{"step": 3, "evaluation/recovery": 0.5, "reward": 1.0}] * 200) == ([{}] * 200, [])


def test_numbers_that_are_none_are_passed_over():
    whole = everything(200)
    holes = [dict.fromkeys(whole[0], math.nan)] * 5 + [dict.fromkeys(whole[0], math.inf)] * 5
    metrics, warnings = watched("all", holes + whole)
    assert metrics[:10] == [{}] * 10
    assert [(step - 10, *rest) for step, *rest in warnings] == watched("all", whole)[1]


def write_run(path, text: str, records, until: int, after: int | None = None, lines: WarningLines | None = None):
    """A run up to a step, its records and warnings in files; one that goes on after step `after`, or begins."""
    path.mkdir(parents=True, exist_ok=True)
    warnings, lines = path / "warnings.jsonl", lines or WarningLines(path.parent)
    begun = -1 if after is None else after
    with MetricLog(path / "metrics.jsonl") as log, MetricLog(warnings) as warned:
        for each, file in ((log, path / "metrics.jsonl"), (warned, warnings)):
            each.rewrite([record for record in metric_log.read(file) if record["step"] <= begun])
    with MetricLog(path / "metrics.jsonl") as log, closing(WarningLog(make_monitors(text), warnings, lines)) as watch:
        watch.recall(path / "metrics.jsonl")
        for step in range(max(begun, 0) + 1, until + 1):
            record = records[step - 1]
            log.write(step, record | watch.observe(step, record))


@settings(deadline=None, max_examples=12)
@given(st.integers(1, 200), st.integers(0, 200))
def test_an_interrupted_run_is_watched_as_an_undisturbed_one(tmp_path_factory, killed, checkpoint):
    path, records = tmp_path_factory.mktemp("runs"), everything(200)
    write_run(path / "whole", "all", records, 200)
    write_run(path / "cut", "all", records, killed)
    write_run(path / "cut", "all", records, 200, after=min(killed, checkpoint))
    for name in ("metrics.jsonl", "warnings.jsonl"):
        assert (path / "cut" / name).read_bytes() == (path / "whole" / name).read_bytes()
    assert len(metric_log.read(path / "whole" / "warnings.jsonl")) == len(MONITORS)


def test_a_warning_is_a_short_line_on_stderr_and_a_sentence_in_a_file(tmp_path, capsys):
    write_run(tmp_path / "run", "low_entropy(steps=2)", series("token_entropy", [0.9, 0.3, 0.25, 0.1]), 4)
    assert capsys.readouterr().err == "run step 3: low_entropy 0.25 nats (was 0.9)\n"
    sentence = "token entropy has been below 0.5 nats for 2 steps (0.25 now, 0.9 at its highest): "
    assert metric_log.read(tmp_path / "run" / "warnings.jsonl") == [
        {"step": 3, "monitor": "low_entropy", "message": sentence + MONITORS["low_entropy"].advice}
    ]
    # What was said is not said again.
    write_run(tmp_path / "run", "low_entropy(steps=2)", series("token_entropy", [0.9, 0.3, 0.25, 0.1]), 4, after=4)
    assert capsys.readouterr().err == ""


def test_seeds_share_a_line_and_advice_comes_once_at_the_end(tmp_path, capsys):
    collapse, fall = (
        series("token_entropy", [0.9, 0.8, 0.3, 0.25]),
        series("group_effective_outcomes", [8.0, 8.0, 2.0, 2.0]),
    )
    monitors = "low_entropy(steps=2), falling_outcomes(steps=2)"
    with WarningLines(tmp_path) as lines:
        for seed in (0, 1, 12):
            write_run(tmp_path / "grpo" / f"seed_{seed}", monitors, collapse[seed == 1 :], 3 + (seed != 1), lines=lines)
        write_run(tmp_path / "dapo" / "seed_0", monitors, fall + fall[2:], 6, lines=lines)
        assert capsys.readouterr().err.splitlines() == [
            "grpo/seed_0 step 4: low_entropy 0.25 nats (was 0.9)",
            "dapo/seed_0 step 5: falling_outcomes 2 (was 8)",
        ]
    assert capsys.readouterr().err.splitlines() == [
        "warnings     low_entropy    falling_outcomes",
        "grpo/seed_*  3 from step 3  -",
        "dapo/seed_0  -              step 5",
        f"low_entropy: {MONITORS['low_entropy'].advice}",
        f"falling_outcomes: {MONITORS['falling_outcomes'].advice}",
    ]
    assert all((tmp_path / "grpo" / f"seed_{seed}" / "warnings.jsonl").read_text() for seed in (0, 1, 12))


def test_without_a_warning_the_terminal_stays_empty(tmp_path, capsys):
    with WarningLines(tmp_path) as lines:
        write_run(tmp_path / "seed_0", "all", series("token_entropy", [0.9] * 90), 90, lines=lines)
    assert capsys.readouterr().err == ""


def test_monitors_from_text():
    assert make_monitors("") == make_monitors(" none ") == {}
    assert make_monitors("all") == {name: monitor() for name, monitor in MONITORS.items()}
    assert list(make_monitors("entropy_law, low_entropy(below=1)")) == ["entropy_law", "low_entropy"]
    changed = make_monitors("low_entropy(below=0.3, steps=9), all")
    assert changed == make_monitors("all") | {"low_entropy": MONITORS["low_entropy"](below=0.3, steps=9)}


def test_in_a_short_run_a_few_steps_are_enough():
    falling, law = MONITORS["falling_outcomes"](), MONITORS["entropy_law"]()
    assert [falling.in_run(steps).steps for steps in (10, 36, 100, 200, 1000)] == [3, 3, 10, 20, 20]
    assert [law.in_run(steps).steps for steps in (10, 200, 1000)] == [10, 20, 50]
    assert make_monitors("low_entropy(steps=9)")["low_entropy"].in_run(20).steps == 9


def test_a_collapse_within_ten_steps_is_called(tmp_path):
    outcomes = [8.0, 7.5, 8.0, 5.0, 3.0, 2.0, 1.5, 1.0, 1.0, 1.0]
    settings = {"monitors": "falling_outcomes", "last_step": 36}
    with RunFolder.open(tmp_path / "run", {}) as folder, RunLog(folder, **settings) as log:
        for step, value in enumerate(outcomes, 1):
            log.write(step, {"group_effective_outcomes": value})
    [warning] = metric_log.read(folder.path / "warnings.jsonl")
    assert warning["monitor"] == "falling_outcomes"
    assert warning["step"] == 8


def test_the_loop_watches_and_goes_on_watching(tmp_path, capsys):
    def trained(path, monitors, evaluate=lambda step, parameters: Evaluation({}), resume=False):
        train_bandit(
            path,
            evaluate,
            resume,
            rewards=(0.5, 0.9, 1.0),
            steps=40,
            group_size=16,
            evaluate_every=5,
            checkpoint_every=10,
            monitors=monitors,
        )
        return [(path / name).read_bytes() for name in ("metrics.jsonl", "warnings.jsonl")]

    monitors = "low_entropy(below=0.8, steps=4), falling_outcomes(by=0.2, steps=4)"
    whole = trained(tmp_path / "whole", monitors)
    warnings = metric_log.read(tmp_path / "whole" / "warnings.jsonl")
    assert {warning["monitor"] for warning in warnings} == {"low_entropy", "falling_outcomes"}
    said = capsys.readouterr().err
    assert said.startswith(f"{os.path.relpath(tmp_path / 'whole')} step {warnings[0]['step']}: ")
    assert "\nwarnings " in said

    stop = 5 * math.ceil((warnings[0]["step"] + 1) / 5)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "cut", monitors, interrupted_at(stop, lambda step, parameters: Evaluation({})))
    assert trained(tmp_path / "cut", monitors, resume=True) == whole

    silent = trained(tmp_path / "silent", "none")
    assert silent[1] == b""
    without = [{k: v for k, v in json.loads(line).items() if "monitor/" not in k} for line in whole[0].splitlines()]
    assert [json.loads(line) for line in silent[0].splitlines()] == without
