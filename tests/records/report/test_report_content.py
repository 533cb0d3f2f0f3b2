import base64
import json
import math

import numpy as np
import pytest

from ipsrl.measures.seeds import mean_over_seeds
from ipsrl.records.report import content as content_module
from ipsrl.records.report import tasks
from ipsrl.records.report.content import content
from ipsrl.records.report.recorded_runs import read_folders, runs_of
from tests.records.report.run_folders import write, write_lines, write_run


def shown(root):
    made = content(read_folders(root), "title")
    # It goes into the page as JSON without NaN.
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    return made


def only_task(root):
    (task,) = shown(root)["tasks"]
    return task


def test_seeds_are_one_row_with_their_interval_and_settings_are_others(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"small/grpo/seed_{seed}", seed=seed, value=0.2)
        write_run(tmp_path / f"large/grpo/seed_{seed}", seed=seed, value=0.4, settings={"group_size": 16, "answers": 4})
    write_run(tmp_path / "ips", "ips_grpo(floor=0.2)", value=0.6)
    task = only_task(tmp_path)
    assert [group["label"] for group in task["groups"]] == [
        "ips_grpo(floor=0.2)",
        "grpo, group_size=16",
        "grpo, group_size=8",
    ]
    assert task["telling"] == ["group_size"]
    assert task["groups"][1]["settings"] == {"group_size": "16"}
    assert task["shared"]["training.steps"] == "6"
    # Not all have it: an older version, say.
    assert task["shared"]["answers"] == "4"
    assert task["measures"] == ["evaluation/recovery", "evaluation/validity"]
    interval = mean_over_seeds(np.array([0.4, 0.41, 0.42]))
    assert task["rows"][1]["cells"]["evaluation/recovery"] == pytest.approx(
        [interval.mean, interval.low, interval.high, 0.1], rel=1e-3
    )
    assert task["rows"][0]["cells"]["evaluation/recovery"] == [0.6, None, None, 0.1]
    assert [(row["runs"], row["complete"]) for row in task["rows"]] == [(1, 1), (3, 3), (3, 3)]
    assert [run["seed"] for run in task["runs"]] == [0, 0, 1, 2, 0, 1, 2]


def test_only_finished_runs_are_measured_as_long_as_there_are_any(tmp_path):
    write_run(tmp_path / "a", seed=0, value=0.2)
    write_run(tmp_path / "b", seed=1, value=0.9, complete=False)
    (row,) = only_task(tmp_path)["rows"]
    assert (row["runs"], row["complete"], row["cells"]["evaluation/recovery"][0]) == (2, 1, 0.2)
    (tmp_path / "a" / "summary.json").unlink()
    (row,) = only_task(tmp_path)["rows"]
    assert (row["complete"], row["step"]) == (0, 6)
    assert row["cells"]["evaluation/recovery"][0] == pytest.approx((0.2 + 0.91) / 2)


def test_the_same_run_counts_once(tmp_path):
    write_run(tmp_path / "first", steps=6)
    write_run(tmp_path / "again", settings={"steps": 6}, steps=9)
    made = shown(tmp_path)
    ((run,),) = (task["runs"] for task in made["tasks"])
    assert run["path"] == "again"
    assert made["notes"] == ["a repeated run does not count: first."]


def test_what_is_not_finite_has_no_mean(tmp_path):
    path = write_run(tmp_path / "run")
    write_lines(
        path / "metrics.jsonl", [{"step": 1, "reward": 1.0, "kl": None}, {"step": 2, "reward": 1e999, "kl": 2.0}]
    )
    task = only_task(tmp_path)
    assert task["rows"][0]["cells"] == {"reward": [None, None, None, None], "kl": [2.0, None, None, None]}
    assert task["runs"][0]["curves"]["kl"] == [0, [None, 2.0]]


def test_what_is_too_large_has_no_mean(tmp_path):
    path = write_run(tmp_path / "run")
    write_lines(path / "metrics.jsonl", [{"step": 1, "a": 1e305, "b": 10**299}, {"step": 2, "a": 10**400, "b": 1}])
    write(path / "summary.json", {"complete": True, "paper": {"x": {"ours": 10**400, "paper": {"mean": 10**400}}}})
    made = shown(tmp_path)
    assert made["tasks"][0]["rows"][0]["cells"] == {"a": [None] * 4, "b": [1e299, None, None, None]}
    assert [note for note in made["notes"] if "line 2 of" in note and "an integer has 401 digits" in note]
    assert made["paper"][0]["ours"] == str(10**400)


def test_damage_costs_what_is_damaged_and_no_more(tmp_path):
    path = write_run(tmp_path / "run")
    whole = only_task(tmp_path)
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 7, "rew')
    assert only_task(tmp_path) == whole
    with (path / "outcomes.jsonl").open("a") as file:
        file.write(
            'no JSON\n[1]\n{"step": "later"}\n{"step": 8, "ranked_shares": "?"}\n{"step": 9, "ranked_shares": [null]}\n'
        )
    (path / "environment.json").write_text("{")
    write(path / "summary.json", [])
    made = shown(tmp_path)
    assert made["tasks"][0]["runs"] == whole["runs"]
    starts, summary, metrics, outcomes = made["notes"]
    assert "environment.json is not valid JSON" in starts
    assert summary.endswith("summary.json holds no JSON object; it is left out.")
    assert metrics.startswith("the last line of ")
    assert "line 4 of " in outcomes
    assert outcomes.endswith(", and 2 more lines are damaged; its other records are shown.")
    assert made["environments"] == made["commands"] == []


@pytest.mark.parametrize(
    "missing",
    ["metrics.jsonl", "outcomes.jsonl", "completions.jsonl", "warnings.jsonl", "summary.json", "environment.json"],
)
def test_any_file_but_the_config_may_be_missing(tmp_path, missing):
    write_run(tmp_path / "whole")
    (write_run(tmp_path / "run", seed=1) / missing).unlink()
    assert shown(tmp_path)["folders"] == 2


def test_paths_begin_at_the_root(tmp_path):
    path = write_run(tmp_path / "run")
    assert [folder.path for folder in read_folders(tmp_path)] == ["run"]
    assert [folder.path for folder in read_folders(path)] == ["."]


def test_many_runs_in_one_file_are_told_apart(tmp_path):
    """Records as written by experiments that train many seeds in one program."""
    tmp_path.joinpath("run").mkdir()
    write(tmp_path / "run/config.json", {"objectives": "a,b", "seeds": "0:2"})
    records = [
        {"step": step, "objective": name, "seed": seed, "share": step / 10}
        for name in "ba"
        for seed in (0, 1)
        for step in (0, 5)
    ]
    write_lines(tmp_path / "run/metrics.jsonl", records)
    task = only_task(tmp_path)
    assert [group["label"] for group in task["groups"]] == ["b", "a"]
    assert [run["seed"] for run in task["runs"]] == [0, 1, 0, 1]
    assert task["rows"][0]["cells"] == {"share": [0.5, 0.5, 0.5, 0]}
    # Records that are no curve over steps.
    write_lines(tmp_path / "run/metrics.jsonl", [{"step": 3, "objective": "a"}, {"step": 3, "objective": "a"}])
    (folder,) = read_folders(tmp_path)
    assert runs_of(folder) == []
    assert shown(tmp_path)["tasks"] == []


def test_claims_are_the_truth_values_of_summaries(tmp_path):
    path = write_run(tmp_path / "run")
    write(
        path / "summary.json", {"complete": True, "results": {"n = 2": {"checks": {"it holds": False}}}, "agrees": True}
    )
    assert shown(tmp_path)["claims"] == [
        {"path": "run", "claim": "results: n = 2: it holds", "holds": False},
        {"path": "run", "claim": "agrees", "holds": True},
    ]


def test_claims_of_an_experiment_may_be_undecided_and_stand_beside_the_paper(tmp_path):
    path = write_run(tmp_path / "run")
    ours = {"mean": 0.571, "low": 0.56, "high": 0.58, "seeds": 3}
    summary = {
        "complete": True,
        "claims": {"it keeps more": True, "it is faster": False, "intervals are apart": None},
        "paper": {"recovery": {"ours": ours, "paper": 0.6074}, "survival": {"ours": 0.25, "paper": None}},
    }
    write(path / "summary.json", summary)
    made = shown(tmp_path)
    assert {claim["claim"]: claim["holds"] for claim in made["claims"]} == summary["claims"]
    assert made["paper"] == [
        {"path": "run", "label": "recovery", "ours": "0.571 [0.56, 0.58], 3 seeds", "paper": "0.6074"},
        {"path": "run", "label": "survival", "ours": "0.25", "paper": "unknown"},
    ]
    assert "claims" not in made["empty"]


def test_figures_are_inside_with_their_captions(tmp_path, monkeypatch):
    path = write_run(tmp_path / "run")
    (path / "map.png").write_bytes(b"picture")
    (path / "map.txt").write_text("What one sees.\n")
    (path / "other.png").write_bytes(b"larger picture")
    first, second = shown(tmp_path)["figures"]
    assert first == {"path": "run/map.png", "caption": "What one sees.\n", "png": "cGljdHVyZQ=="}
    assert (second["path"], second["caption"]) == ("run/other.png", "")
    monkeypatch.setattr(content_module, "FIGURE_BYTES", 10)
    made = shown(tmp_path)
    assert made["figures"] == [first]
    assert made["notes"] == ["1 figures are left out, because the page would grow too large."]


def test_empty_sections_say_why(tmp_path):
    path = write_run(tmp_path / "run", warnings=["low"])
    assert set(shown(tmp_path)["empty"]) == {"figures", "claims"}
    for name in ("warnings.jsonl", "metrics.jsonl"):
        (path / name).unlink()
    empty = shown(tmp_path)["empty"]
    assert empty["curves"] == "No run here has metrics.jsonl, which training writes step by step."
    assert empty["warnings"] == "No run here had monitors: no metrics.jsonl has their metrics."
    assert set(empty) == {"results", "curves", "outcomes", "completions", "settings", "figures", "claims", "warnings"}
    write_lines(path / "metrics.jsonl", [{"step": 3, "objective": "a"}, {"step": 3, "objective": "a"}])
    assert shown(tmp_path)["empty"]["curves"].startswith("No metrics.jsonl here has records of an objective")
    write_lines(path / "metrics.jsonl", [{"step": 1, "monitor/low_entropy": 0.0}])
    assert shown(tmp_path)["empty"]["warnings"] == "No monitor has warned."


def test_environments_commands_and_changes_are_listed_once(tmp_path):
    for seed in range(3):
        path = write_run(tmp_path / str(seed), seed=seed)
        if seed:
            (path / "uncommitted.diff").write_text("+ a line\n")
    made = shown(tmp_path)
    (environment,) = made["environments"]
    assert environment["starts"] == 3
    assert environment["entries"] == {
        "python": "3.12.1",
        "jax": "0.10.2",
        "devices": "2 x cpu",
        "git_commit": "0123456789abcdef-dirty",
    }
    assert made["commands"] == ["python -m experiments.hypergrid --objectives=grpo"]
    assert made["changes"] == [{"runs": 2, "diff": "+ a line\n"}]


def test_a_hundred_long_runs_stay_small(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "NUMBERS", 4000)
    monkeypatch.setattr(tasks, "CHARACTERS", 400)
    for seed in range(10):
        path = write_run(tmp_path / str(seed), seed=seed)
        last = 1000 if seed else 777
        write_lines(path / "metrics.jsonl", [{"step": s, "reward": s / 7, "loss": -s / 7} for s in range(1, last + 1)])
    made = shown(tmp_path)
    (task,) = made["tasks"]
    # 4000 numbers for 20 curves: 200 each.
    assert task["every"] == {"reward": 5, "loss": 5}
    first, second = (task["axes"][task["runs"][run]["curves"]["reward"][0]] for run in (0, 1))
    assert len(second) == 201
    # The last record of each run is kept, and all others are at the same steps.
    assert (first[-1], second[-1]) == (777, 1000)
    assert set(first[:-1]) <= set(second)
    for run in task["runs"]:
        axis, values = run["curves"]["reward"]
        np.testing.assert_allclose(values, np.array(task["axes"][axis]) / 7, rtol=1e-3)
    assert len(task["axes"]) == 2
    with_texts = [run["seed"] for run in task["runs"] if run["completions"]]
    assert 0 < len(with_texts) < 10
    assert with_texts == list(range(len(with_texts)))
    assert made["notes"] == [
        f"the completions of {10 - len(with_texts)} runs are left out, because the page would grow too large."
    ]


def test_tasks_with_other_measures_are_apart(tmp_path):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", settings={"environment": "Countdown(numbers=4)"})
    write_run(tmp_path / "c", settings={"environment": "Hypergrid(dimensions=4, side=8)"})
    write_run(tmp_path / "d", settings={"environment": "LanguageTask(task=MathAnswers(split='test'))"})
    tasks = shown(tmp_path)["tasks"]
    assert [task["name"] for task in tasks] == ["Hypergrid", "Countdown", "LanguageTask(MathAnswers)"]
    assert [group["label"] for group in tasks[0]["groups"]] == ["grpo, dimensions=2", "grpo, dimensions=4"]


def write_experiment(path, config):
    """A folder of an experiment that trains two objectives and names no environment."""
    path.mkdir(parents=True)
    write(path / "config.json", config)
    write(path / "summary.json", {"complete": True})
    write_lines(
        path / "metrics.jsonl",
        [{"step": step, "objective": name, "share": 0.1 * step} for name in "ab" for step in range(3)],
    )


def test_without_an_environment_runs_of_one_experiment_are_one_task(tmp_path):
    """Folders as left by a sweep over the seeds of `experiments.two_outcomes`."""
    for seed in range(3):
        write_experiment(tmp_path / f"sweep/seeds={seed}", {"objectives": "a,b", "seeds": str(seed), "rate": 0.5})
    write_experiment(tmp_path / "other", {"objectives": "a,b", "depth": 7})
    other, task = shown(tmp_path)["tasks"]
    assert (other["name"], task["name"]) == ("other", "sweep/seeds=*")
    assert [group["label"] for group in task["groups"]] == ["a", "b"]
    assert [run["seed"] for run in task["runs"]] == [0, 1, 2, 0, 1, 2]
    assert task["rows"][0]["cells"]["share"] == [0.2, 0.2, 0.2, 0]
    assert "seeds" not in task["shared"]


def test_seeds_asked_for_do_not_tell_runs_apart(tmp_path):
    """Folders as left by `experiments.compare`: each record has its seed, and config.json the seeds of its command."""
    for name, seeds in (("first", [0, 1]), ("second", [2])):
        config = {"environment": "Bandit(rewards=(1.0, 1.0))", "objective": "grpo", "seeds": seeds}
        path = write_run(tmp_path / name)
        write(path / "config.json", config)
        write_lines(path / "metrics.jsonl", [{"step": step, "seed": s, "share": 0.5} for s in seeds for step in (0, 1)])
    task = only_task(tmp_path)
    assert [group["label"] for group in task["groups"]] == ["grpo"]
    assert [run["seed"] for run in task["runs"]] == [0, 1, 2]


def test_outcomes_and_warnings(tmp_path):
    write_run(tmp_path / "run", warnings=["token entropy has been low"])
    made = shown(tmp_path)
    assert made["warnings"] == {
        "count": 1,
        "listed": [{"path": "run", "step": 2, "monitor": "low_entropy", "message": "token entropy has been low"}],
    }
    outcomes = made["tasks"][0]["runs"][0]["outcomes"]
    assert outcomes == {"steps": [0, 3, 6], "shares": [[0.5, 0.1], [0.7, 0.1], [0.9, 0.1]], "rest": [0, 0, 0]}


def test_numbers_have_four_digits():
    assert tasks.short(math.pi * 1000) == 3142
    assert tasks.short(-1 / 3) == -0.3333
    assert tasks.short(2.0) == 2
    assert tasks.short(1234567.0) == 1235000
    assert tasks.short(math.inf) is None


OF_A_RUN = (
    "two_outcomes.txt",
    "two_outcomes.png",
    "uncommitted.diff",
    "config.json",
    "environment.json",
    "summary.json",
    "labels.json",
    "metrics.jsonl",
    "outcomes.jsonl",
    "completions.jsonl",
    "warnings.jsonl",
)


@pytest.mark.parametrize("name", OF_A_RUN)
def test_a_link_out_of_the_folder_is_left_out(name, tmp_path):
    secret = {"step": 1, "completion": "secret", "message": "secret", "prompt": "secret", "command": "secret"}
    of_kind = {"environment.json": [secret], "labels.json": ["secret"]}
    write(tmp_path / "secret", of_kind.get(name, secret))
    run = tmp_path / "runs" / "run"
    write_run(run)
    (run / "two_outcomes.png").write_bytes(b"a picture")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to("../../secret")
    made = shown(tmp_path / "runs")
    assert f"{run / name} is a link out of {tmp_path / 'runs'}; it is left out." in made["notes"]
    encoded = base64.b64encode((tmp_path / "secret").read_bytes()).decode()
    assert not any(found in json.dumps(made) for found in ('secret"', encoded))


def test_a_link_within_the_folder_is_followed(tmp_path):
    write_run(tmp_path / "run")
    (tmp_path / "run" / "two_outcomes.png").write_bytes(b"a picture")
    (tmp_path / "caption").write_text("of both")
    (tmp_path / "run" / "two_outcomes.txt").symlink_to("../caption")
    assert [figure["caption"] for figure in shown(tmp_path)["figures"]] == ["of both"]
