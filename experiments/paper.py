"""The figures and tables of the paper, arXiv 2601.21669, and of our own: commands, numbers, and what they should show.

`scripts/reproduce_figures.py` runs them; what each experiment does stands in its own module.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Summary = Mapping[str, Any]
"""What a summary.json holds."""
Number = float | Mapping[str, float | None]
"""A number of a summary, or an interval over seeds as {mean, low, high, seeds}; low and high are None for one seed."""

AGREES_WITHIN = 0.3
"""Largest relative difference from a number of the paper, which gives one or two digits and no intervals."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One figure or table.

    Attributes:
      shows: what it is.
      experiment: the module of `experiments` behind it.
      figure: name of the files that it draws; empty where there is a table only.
      minutes: that the demo takes on two CPU cores.
      claim: what it should show, in words.
      holds: whether it does, by the summary.
      numbers: the main numbers of the summary, by label.
      paper: those that the paper gives, by the same labels.
      flags: preset -> what the command has beyond it.
    """

    shows: str
    experiment: str
    figure: str
    minutes: float
    claim: str
    holds: Callable[[Summary], bool]
    numbers: Callable[[Summary], dict[str, Number]]
    paper: Mapping[str, float] = dataclasses.field(default_factory=dict)
    flags: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    def command(self, preset: str) -> list[str]:
        """The arguments of Python, but for --out and --resume."""
        return ["-m", f"experiments.{self.experiment}", f"--preset={preset}", *self.flags.get(preset, ())]

    def verdict(self, summary: Summary) -> str:
        """Whether the claim holds, and the numbers with it."""
        if not self.holds(summary):
            return "does not hold"
        numbers = self.numbers(summary)
        far = [label for label, value in self.paper.items() if abs(_mean(numbers[label]) / value - 1) > AGREES_WITHIN]
        return f"holds, other numbers for {', '.join(far)}" if far else "holds"


def shown(numbers: Mapping[str, Number]) -> str:
    """Numbers and their labels in a line of text, with intervals where there are some."""
    return ", ".join(f"{label} {_shown(number)}" for label, number in numbers.items())


def _shown(number: Number) -> str:
    if isinstance(number, Mapping):
        mean, low, high = (number[name] for name in ("mean", "low", "high"))
        return _digits(mean) if low is None else f"{_digits(mean)} [{_digits(low)}, {_digits(high)}]"
    return _digits(number)


def _digits(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def _mean(number: Number) -> float:
    return number["mean"] if isinstance(number, Mapping) else number


def _apart(less: Number, more: Number) -> bool:
    """Whether the second is greater, with intervals apart where there are some."""
    high, low = less["high"], more["low"]
    return _mean(less) < _mean(more) if high is None or low is None else high < low


def _cell_errors(dimensions: int) -> Callable[[Summary], dict[str, Number]]:
    labels = {"grpo": "GRPO", "ips_grpo": "IPS-GRPO", "ips_grpo(probability=exact)": "with exact probabilities"}

    def numbers(summary: Summary) -> dict[str, Number]:
        rows = summary["results"][f"n = {dimensions}"]["objectives"]
        return {label: rows[name]["l1_per_cell"] for name, label in labels.items()}

    return numbers


def _fewer_errors(summary: Summary) -> bool:
    errors = _cell_errors(4)(summary)
    return _apart(errors["IPS-GRPO"], errors["GRPO"])


def _recoveries(summary: Summary) -> dict[str, Number]:
    (task,) = summary["tasks"].values()
    labels = {"grpo": "GRPO", "ips_grpo(floor=0.2)": "IPS-GRPO", "progrpo": "ProGRPO"}
    recoveries = {label: task["objectives"][name]["recovery"] for name, label in labels.items()}
    return recoveries | {"ceiling": task["prior"]["ceiling"]}


def _recovers_more(summary: Summary) -> bool:
    (task,) = summary["tasks"].values()
    return bool(task["checks"]) and all(task["checks"].values())


def _extreme_recoveries(summary: Summary) -> dict[str, Number]:
    cells = [sum(seeds) / len(seeds) for row in summary["recovery"] for seeds in row]
    return {"lowest": min(cells), "highest": max(cells)}


def _path_shares(summary: Summary) -> dict[str, Number]:
    rows = summary["objectives"]
    return {
        "share of the 35 paths under GRPO": rows["grpo"]["share"],
        "under IPS-GRPO": rows["ips_grpo"]["share"],
    }


def _keeps_both(summary: Summary) -> bool:
    grpo, scaled = (summary["objectives"][name] for name in ("grpo", "ips_grpo"))
    return grpo["seeds_on_more_paths"] == grpo["share"]["seeds"] and scaled["seeds_on_both"] == scaled["share"]["seeds"]


def _counted(summary: Summary) -> dict[str, Number]:
    words = sorted(summary["verdicts"].values())
    return {word: len(list(same)) for word, same in itertools.groupby(words)}


def _best_at_rest(summary: Summary) -> dict[str, Number]:
    """The probability of the best of the outcomes with rewards 1, 0.6, 0.3 where training ends."""
    labels = {"grpo": "best outcome at rest: GRPO", "ips_grpo": "IPS-GRPO"}
    return {
        labels[portrait["objective"]]: law[0]
        for portrait in summary["portraits"]
        if portrait["objective"] in labels and portrait["rewards"] == [1.0, 0.6, 0.3]
        for law in portrait["attracting_laws"]
    }


def _rests_inside(summary: Summary) -> bool:
    grpo, scaled = _best_at_rest(summary).values()
    return grpo == 1 and abs(scaled - 1 / 1.9) < 0.1


def _wrong_cells(summary: Summary) -> dict[str, Number]:
    rules = summary["rules"].values()
    return {
        "cells": sum(rule["cells"] for rule in rules),
        "on the other side": sum(rule["wrong_cells"] for rule in rules),
        "by at most, in alpha": max(rule["beyond_border"] for rule in rules),
    }


def _border_holds(summary: Summary) -> bool:
    return all(rule["wrong_share"] <= 0.01 for rule in summary["rules"].values())


def _collapse_times(summary: Summary) -> dict[str, Number]:
    last = summary["collapse_time"][-1]
    return {f"updates at G = {last['group_size']}": last["sampled"], "exactly": last["exact"]}


def _recovery_times(summary: Summary) -> dict[str, Number]:
    last = summary["rules"]["no baseline"][-1]
    return {f"time from p = {last['start']:g}": last["sampled"], "of the mean field": last["mean_field"]}


def _near_the_mean_field(summary: Summary) -> bool:
    points = [point for rule in summary["rules"].values() for point in rule]
    return all(abs(point["sampled"]["mean"] / point["mean_field"] - 1) < 0.1 for point in points)


def _diversities(summary: Summary) -> dict[str, Number]:
    labels = {"grpo": "GRPO", "ips_grpo(probability=counts)": "counts", "ips_grpo(probability=exact)": "exact"}
    most = list(summary["objectives"]["grpo"])[-1]
    return {f"{label}, K = {most}": summary["objectives"][name][most]["diversity"] for name, label in labels.items()}


def _exact_restores(summary: Summary) -> bool:
    grpo, counts, exact = _diversities(summary).values()
    return summary["rates_agree"] and _apart(grpo, exact) and _apart(counts, exact)


def _outcomes_left(summary: Summary) -> dict[str, Number]:
    return {name: summary["objectives"][name]["effective_outcomes"] for name in ("grpo", "placebo", "ips_grpo")}


def _beats_the_placebo(summary: Summary) -> bool:
    grpo, placebo, scaled = _outcomes_left(summary).values()
    return _apart(grpo, scaled) and _apart(placebo, scaled) and summary["objectives"]["ips_grpo"]["rank"] is not None


def _comparison(environment: str, shows: str, minutes: float) -> Entry:
    flag = f"--environment={environment}"
    return Entry(
        shows=f"every objective on {shows}: effective outcomes and reward",
        experiment="compare",
        figure="comparison",
        minutes=minutes,
        claim="inverse probability scaling keeps more outcomes than GRPO and a placebo, at a reward above the bar",
        holds=_beats_the_placebo,
        numbers=_outcomes_left,
        flags={"smoke": [flag, "--objectives=grpo,placebo,ips_grpo,darling"], "demo": [flag], "paper": [flag]},
    )


def _table_2(task: str, smoke: str, shows: str, minutes: float, grpo: float, scaled: float) -> Entry:
    return Entry(
        shows=f"Table 2, {shows}: recovery",
        experiment="hypospace",
        figure="hypospace",
        minutes=minutes,
        claim="IPS-GRPO recovers more than GRPO, at the same validity",
        holds=_recovers_more,
        numbers=_recoveries,
        paper={"GRPO": grpo, "IPS-GRPO": scaled},
        flags={"smoke": [f"--tasks={smoke}"], "demo": [f"--tasks={task}"], "paper": [f"--tasks={task}"]},
    )


OF_THE_PAPER = {
    "two_outcomes": Entry(
        shows="Theorems 3.1, 4.1: log-ratio of two outcomes",
        experiment="two_outcomes",
        figure="two_outcomes",
        minutes=0.5,
        claim="training follows the closed forms",
        holds=lambda summary: summary["agrees"],
        numbers=lambda summary: {
            "share of times outside 3 standard errors": max(summary["share_outside_3_standard_errors"].values())
        },
    ),
    "hypergrid": Entry(
        shows="Table 1, n = 2: mean error per cell",
        experiment="hypergrid",
        figure="hypergrid_laws",
        minutes=3,
        claim="GRPO ends on one mode, IPS-GRPO finds every cell and mode",
        holds=lambda summary: all(summary["results"]["n = 2"]["checks"].values()),
        numbers=_cell_errors(2),
        paper={"GRPO": 0.028, "IPS-GRPO": 0.003},
        flags={"paper": ["--dimensions=2"]},
    ),
    "hypergrid_4": Entry(
        shows="Table 1, n = 4: mean error per cell",
        experiment="hypergrid",
        figure="",
        minutes=2,
        claim="IPS-GRPO errs less than GRPO",
        holds=_fewer_errors,
        numbers=_cell_errors(4),
        paper={"GRPO": 5.2e-4, "IPS-GRPO": 3.7e-4},
        flags={
            "smoke": ["--dimensions=4", "--side=4"],
            "demo": ["--dimensions=4", "--steps=600", "--seeds=0:2", "--hidden_size=128"],
            "paper": ["--dimensions=4"],
        },
    ),
    "hypospace_boolean": _table_2(
        "hypospace_boolean(operators=full, depth=2)",
        "hypospace_boolean(operators=basic, depth=2)",
        "Boolean",
        4,
        grpo=0.095,
        scaled=0.6074,
    ),
    "hypospace_causal": _table_2(
        "hypospace_causal(nodes=4, perturbations=2)",
        "hypospace_causal(nodes=3, perturbations=1)",
        "causal",
        11,
        grpo=0.1602,
        scaled=0.4391,
    ),
    "hypospace_voxels": _table_2(
        "hypospace_voxels(blocks=2, fixed=True)",
        "hypospace_voxels(blocks=1, fixed=True)",
        "voxels",
        31,
        grpo=0.3161,
        scaled=0.9,
    ),
    "group_size_and_floor": Entry(
        shows="Table 4: recovery by group size and floor, causal",
        experiment="group_size_and_floor",
        figure="group_size_and_floor",
        minutes=10,
        claim="equal cells where floor <= 1/G",
        holds=lambda summary: summary["floors_up_to_1_over_G_agree"],
        numbers=_extreme_recoveries,
        paper={"lowest": 0.1763, "highest": 0.4391},
    ),
    "path_multiplicity": Entry(
        shows="Section 6: 35 against 7 paths to two outcomes",
        experiment="path_multiplicity",
        figure="path_multiplicity",
        minutes=1,
        claim="GRPO ends on the 35 paths, IPS-GRPO keeps both",
        holds=_keeps_both,
        numbers=_path_shares,
    ),
}

OF_OUR_OWN = {
    "verdicts": Entry(
        shows="what every objective does to the outcomes, in a word",
        experiment="verdicts",
        figure="verdicts",
        minutes=4,
        claim="GRPO collapses, IPS-GRPO rests in proportion to a power of the reward",
        holds=lambda summary: (
            (summary["verdicts"]["grpo"], summary["verdicts"]["ips_grpo"]) == ("collapses", "reward-proportional")
        ),
        numbers=_counted,
        flags={"smoke": ["--objectives=grpo,ips_grpo"]},
    ),
    "phase_portraits": Entry(
        shows="expected training as flows over three outcomes",
        experiment="phase_portraits",
        figure="phase_portraits",
        minutes=2,
        claim="of outcomes with rewards 1, 0.6, 0.3 GRPO keeps the best alone, IPS-GRPO rests within 0.1 of r / sum r",
        holds=_rests_inside,
        numbers=_best_at_rest,
    ),
    "survival_map": Entry(
        shows="where the weaker outcome survives, over group size and exponent",
        experiment="survival_map",
        figure="survival_map",
        minutes=1,
        claim="the border is alpha = ln rho / ln G, or ln(G - 1) with a group mean: 1 % of cells beyond it, or fewer",
        holds=_border_holds,
        numbers=_wrong_cells,
    ),
    "collapse_time": Entry(
        shows="how long a tie lasts without a baseline",
        experiment="collapse_time",
        figure="collapse_time",
        minutes=1,
        claim="in proportion to G; all intervals hold the exact times",
        holds=lambda summary: summary["sampled_agrees_with_exact"],
        numbers=_collapse_times,
    ),
    "recovery_time": Entry(
        shows="how long a lost outcome takes to return",
        experiment="recovery_time",
        figure="recovery_time",
        minutes=0.5,
        claim="as 1 / p by counts: within 10 % of the mean field from every start",
        holds=_near_the_mean_field,
        numbers=_recovery_times,
    ),
    "many_outcomes": Entry(
        shows="diversity kept where outcomes outnumber the group, as a share of K",
        experiment="many_outcomes",
        figure="many_outcomes",
        minutes=5,
        claim="exact probabilities restore it, counts hardly do; rates are the closed forms",
        holds=_exact_restores,
        numbers=_diversities,
    ),
    "comparison_bandit": _comparison("bandit", "a bandit", 4),
    "comparison_hypergrid": _comparison("hypergrid", "the hypergrid", 4),
    "comparison_hypospace": _comparison("hypospace_boolean", "HypoSpace, Boolean", 30),
    "countdown": Entry(
        shows="recovery on countdown",
        experiment="countdown",
        figure="countdown",
        minutes=15,
        claim="IPS-GRPO recovers more than GRPO, at the same validity",
        holds=_recovers_more,
        numbers=_recoveries,
    ),
}

ENTRIES = OF_THE_PAPER | OF_OUR_OWN

LEFT_OUT = {
    "FlowRL in Tables 1 and 2": "the objective is here: add flowrl to --objectives of the same commands",
    "Section 5.3, molecules": "no experiment here: it needs the scoring functions of drug design",
    "pass@k on math answers": "python -m experiments.math_answers needs a pretrained model and a data set",
}
"""What is not drawn, and why."""
