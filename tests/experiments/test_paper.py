"""The list of figures is whole, its commands are real ones, and its verdicts come from numbers."""

import re
import shlex
from pathlib import Path

import pytest

from experiments.paper.entries import ENTRIES, LEFT_OUT
from experiments.paper.entry import Entry, shown
from experiments.sweeps.runs import make_run, settings_of
from ipsrl.environments import catalog as environments

ROOT = Path(__file__).parents[2]
PRESETS = ("smoke", "demo", "paper")


def test_every_experiment_with_a_figure_is_drawn_or_left_out():
    listed = {(entry.experiment, entry.figure) for entry in ENTRIES.values() if entry.figure}
    left_out = " ".join(LEFT_OUT.values())
    for path in (ROOT / "experiments").glob("*.py"):
        if "    launch(" not in path.read_text():
            continue
        (figure,) = re.findall(r"^Figure +(?:OUT/(\w+)\.png|none)", path.read_text(), re.MULTILINE)
        assert not figure or (path.stem, figure) in listed or f"experiments.{path.stem} " in left_out, path


@pytest.mark.parametrize("preset", PRESETS)
def test_commands_are_understood(preset):
    runs = [make_run(**entry.request(preset)) for entry in ENTRIES.values()]
    assert len({run.identity for run in runs}) == len(ENTRIES)
    for run in runs:
        for task in (getattr(settings_of(run), attribute, "") for attribute in ("tasks", "task", "environment")):
            assert not task or task == "bandit" or environments.make(task)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_command_asks_for_the_run(name):
    for preset in PRESETS:
        python, *command = shlex.split(ENTRIES[name].command(preset))
        assert (python, command[0]) == ("python", "-m")
        assert read_command(command[1:]) == make_run(**ENTRIES[name].request(preset))


def read_command(arguments):
    """The run that the arguments of `python -m` ask for."""
    module, *flags = arguments
    given = dict(flag.removeprefix("--").split("=", 1) for flag in flags)
    given.pop("out", None)
    return make_run(module.removeprefix("experiments."), **given)


def test_the_commands_of_the_readme_are_these():
    runs = [make_run(**entry.request(preset)) for entry in ENTRIES.values() for preset in ("demo", "paper")]
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("|")]
    commands = [shlex.split(command) for row in rows for command in re.findall(r"`python -m (experiments\..*?)`", row)]
    assert len(commands) >= 15
    for command in commands:
        assert read_command(command) in runs, command


def entry(holds=True, **paper):
    return Entry("", "", "", 1.0, "", lambda summary: holds, lambda summary: summary, paper=paper)


def test_verdicts():
    interval = {"mean": 0.5, "low": 0.4, "high": 0.6, "seeds": 3}
    assert entry().verdict({}) == "holds"
    assert entry(holds=False, a=1.0).verdict({"a": 1.0}) == "does not hold"
    assert entry(holds=None).verdict({}) == "needs two seeds or more"
    assert entry(a=0.4, b=0.5).verdict({"a": interval, "b": 0.64}) == "holds"
    assert entry(a=0.2, b=0.5).verdict({"a": interval, "b": 0.66}) == "holds, other numbers for a, b"


def test_numbers_as_text():
    interval = {"mean": 0.5734, "low": 0.5601, "high": 0.6, "seeds": 3}
    one_seed = {"mean": 2054.4, "low": None, "high": None, "seeds": 1}
    assert shown({"a": interval, "b": one_seed, "c": 4.9123e-4, "d": 8}) == (
        "a 0.573 [0.56, 0.6], b 2,054, c 0.000491, d 8"
    )


def interval(mean, width=0.01):
    return {"mean": mean, "low": mean - width, "high": mean + width, "seeds": 3}


def checks(*held):
    return {"checks": {f"claim {number}": value for number, value in enumerate(held)}}


def laws(first):
    return [{"objective": n, "rewards": [1.0, 0.6, 0.3], "attracting_laws": [[p]]} for n, p in first.items()]


def outcomes(scaled, rank=1):
    objectives = {"grpo": (1.2, 2), "placebo": (1.6, 3), "ips_grpo": (scaled, rank)}
    return {"objectives": {n: {"effective_outcomes": interval(v), "rank": r} for n, (v, r) in objectives.items()}}


def diversity(exact, agree=True):
    names = {"grpo": 0.6, "ips_grpo(probability=counts)": 0.65, "ips_grpo(probability=exact)": exact}
    return {"objectives": {n: {"4096": {"diversity": interval(v)}} for n, v in names.items()}, "rates_agree": agree}


def cells(ips):
    names = {"grpo": 4.9e-4, "ips_grpo": ips, "ips_grpo(probability=exact)": 2e-5}
    return {"results": {"n = 4": {"objectives": {n: {"l1_per_cell": interval(v, 1e-5)} for n, v in names.items()}}}}


def shares(both):
    grpo = {"share": interval(0.98), "seeds_on_more_paths": 3, "seeds_on_both": 0}
    return {"objectives": {"grpo": grpo, "ips_grpo": {"share": interval(0.5), "seeds_on_both": both}}}


@pytest.mark.parametrize(
    ("name", "true", "false"),
    [
        ("two_outcomes", {"agrees": True}, {"agrees": False}),
        ("hypergrid", {"results": {"n = 2": checks(True)}}, {"results": {"n = 2": checks(False)}}),
        ("hypergrid_4", cells(3.3e-4), cells(4.8e-4)),
        ("hypospace_causal", {"tasks": {"a task": checks(True)}}, {"tasks": {"a task": checks(True, False)}}),
        ("countdown", {"tasks": {"a task": checks(True)}}, {"tasks": {"a task": checks()}}),
        ("path_multiplicity", shares(3), shares(2)),
        (
            "verdicts",
            {"verdicts": {"grpo": "collapses", "ips_grpo": "reward-proportional"}},
            {"verdicts": {"grpo": "collapses", "ips_grpo": "other"}},
        ),
        (
            "phase_portraits",
            {"portraits": laws({"grpo": 1.0, "ips_grpo": 0.58})},
            {"portraits": laws({"grpo": 1.0, "ips_grpo": 0.7})},
        ),
        ("survival_map", {"rules": {"a": {"wrong_share": 0.01}}}, {"rules": {"a": {"wrong_share": 0.02}}}),
        (
            "recovery_time",
            {"rules": {"a": [{"sampled": interval(4.3), "mean_field": 4.0}]}},
            {"rules": {"a": [{"sampled": interval(4.5), "mean_field": 4.0}]}},
        ),
        ("many_outcomes", diversity(0.9), diversity(0.66)),
        ("many_outcomes", diversity(0.9), diversity(0.9, agree=False)),
        ("comparison_bandit", outcomes(5.7), outcomes(1.61)),
        ("comparison_bandit", outcomes(5.7), outcomes(5.7, rank=None)),
    ],
)
def test_claims_hold_by_their_numbers(name, true, false):
    assert ENTRIES[name].holds(true) is True
    assert ENTRIES[name].holds(false) is False


def test_claims_about_intervals_need_two_seeds():
    one_seed = {"mean": 5.7, "low": None, "high": None, "seeds": 1}
    alone = outcomes(5.7)
    alone["objectives"]["ips_grpo"]["effective_outcomes"] = one_seed
    assert ENTRIES["comparison_bandit"].holds(alone) is None
    assert ENTRIES["hypergrid"].holds({"results": {"n = 2": checks(True, None)}}) is None
    assert ENTRIES["hypergrid"].holds({"results": {"n = 2": checks(False, None)}}) is False
