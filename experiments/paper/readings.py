"""What a summary.json says about a claim: the main numbers by label, and whether it holds."""

import itertools
from collections.abc import Callable, Mapping

from experiments.paper.entry import Number, Summary, apart


def cell_errors(dimensions: int) -> Callable[[Summary], dict[str, Number]]:
    labels = {"grpo": "GRPO", "ips_grpo": "IPS-GRPO", "ips_grpo(probability=exact)": "with exact probabilities"}

    def numbers(summary: Summary) -> dict[str, Number]:
        rows = summary["results"][f"n = {dimensions}"]["objectives"]
        return {label: rows[name]["l1_per_cell"] for name, label in labels.items()}

    return numbers


def fewer_errors(summary: Summary) -> bool | None:
    errors = cell_errors(4)(summary)
    return apart(errors["IPS-GRPO"], errors["GRPO"])


def recoveries(summary: Summary) -> dict[str, Number]:
    (task,) = summary["tasks"].values()
    labels = {"grpo": "GRPO", "ips_grpo(floor=0.2)": "IPS-GRPO", "progrpo": "ProGRPO"}
    recoveries = {label: task["objectives"][name]["recovery"] for name, label in labels.items()}
    return recoveries | {"ceiling": task["prior"]["ceiling"]}


def all_hold(checks: Mapping[str, bool | None]) -> bool | None:
    """Whether there are claims and all of them hold; None where one seed leaves some open."""
    if not checks or False in checks.values():
        return False
    return None if None in checks.values() else True


def finds_the_grid(summary: Summary) -> bool | None:
    return all_hold(summary["results"]["n = 2"]["checks"])


def recovers_more(summary: Summary) -> bool | None:
    (task,) = summary["tasks"].values()
    return all_hold(task["checks"])


def extreme_recoveries(summary: Summary) -> dict[str, Number]:
    cells = [sum(seeds) / len(seeds) for row in summary["recovery"] for seeds in row]
    return {"lowest": min(cells), "highest": max(cells)}


def path_shares(summary: Summary) -> dict[str, Number]:
    rows = summary["objectives"]
    return {
        "share of the 35 paths under GRPO": rows["grpo"]["share"],
        "under IPS-GRPO": rows["ips_grpo"]["share"],
    }


def keeps_both(summary: Summary) -> bool:
    grpo, scaled = (summary["objectives"][name] for name in ("grpo", "ips_grpo"))
    return grpo["seeds_on_more_paths"] == grpo["share"]["seeds"] and scaled["seeds_on_both"] == scaled["share"]["seeds"]


def counted(summary: Summary) -> dict[str, Number]:
    words = sorted(summary["verdicts"].values())
    return {word: len(list(same)) for word, same in itertools.groupby(words)}


def best_at_rest(summary: Summary) -> dict[str, Number]:
    """The probability of the best of the outcomes with rewards 1, 0.6, 0.3 where training ends."""
    labels = {"grpo": "best outcome at rest: GRPO", "ips_grpo": "IPS-GRPO"}
    return {
        labels[portrait["objective"]]: law[0]
        for portrait in summary["portraits"]
        if portrait["objective"] in labels and portrait["rewards"] == [1.0, 0.6, 0.3]
        for law in portrait["attracting_laws"]
    }


def rests_inside(summary: Summary) -> bool:
    grpo, scaled = best_at_rest(summary).values()
    return grpo == 1 and abs(scaled - 1 / 1.9) < 0.1


def wrong_cells(summary: Summary) -> dict[str, Number]:
    rules = summary["rules"].values()
    return {
        "cells": sum(rule["cells"] for rule in rules),
        "on the other side": sum(rule["wrong_cells"] for rule in rules),
        "by at most, in alpha": max(rule["beyond_border"] for rule in rules),
    }


def border_holds(summary: Summary) -> bool:
    return all(rule["wrong_share"] <= 0.01 for rule in summary["rules"].values())


def collapse_times(summary: Summary) -> dict[str, Number]:
    last = summary["collapse_time"][-1]
    return {f"updates at G = {last['group_size']}": last["sampled"], "exactly": last["exact"]}


def recovery_times(summary: Summary) -> dict[str, Number]:
    last = summary["rules"]["no baseline"][-1]
    return {f"time from p = {last['start']:g}": last["sampled"], "of the mean field": last["mean_field"]}


def near_the_mean_field(summary: Summary) -> bool:
    points = [point for rule in summary["rules"].values() for point in rule]
    return all(abs(point["sampled"]["mean"] / point["mean_field"] - 1) < 0.1 for point in points)


def diversities(summary: Summary) -> dict[str, Number]:
    labels = {"grpo": "GRPO", "ips_grpo(probability=counts)": "counts", "ips_grpo(probability=exact)": "exact"}
    most = list(summary["objectives"]["grpo"])[-1]
    return {f"{label}, K = {most}": summary["objectives"][name][most]["diversity"] for name, label in labels.items()}


def exact_restores(summary: Summary) -> bool:
    grpo, counts, exact = diversities(summary).values()
    return summary["rates_agree"] and apart(grpo, exact) and apart(counts, exact)


def outcomes_left(summary: Summary) -> dict[str, Number]:
    return {name: summary["objectives"][name]["effective_outcomes"] for name in ("grpo", "placebo", "ips_grpo")}


def beats_the_placebo(summary: Summary) -> bool:
    grpo, placebo, scaled = outcomes_left(summary).values()
    return apart(grpo, scaled) and apart(placebo, scaled) and summary["objectives"]["ips_grpo"]["rank"] is not None
