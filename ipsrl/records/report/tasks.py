"""Training runs in a report, task by task: groups that differ in their seeds, their curves and answers."""

import itertools
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ipsrl.measures.seeds import LARGEST, mean_over_seeds
from ipsrl.records.line_styles import style_numbers
from ipsrl.records.metric_log import EVALUATION
from ipsrl.records.report import differing_settings
from ipsrl.records.report.recorded_runs import Record, Run, is_number

# Bounds that keep a page of a hundred runs under 20 MB, beside those of `content`.
POINTS = 2000
FEWEST_POINTS = 50
NUMBERS = 1_500_000
OUTCOME_STEPS = 100
CHARACTERS = 3_000_000
LONGEST_TEXT = 4000


def grouped(runs: Sequence[Run]) -> tuple[list[list[Run]], list[str]]:
    """Groups of runs that differ only in their seeds; of equal runs the longest, and a note on the others."""
    found, again = {}, []
    for run in runs:
        same = found.setdefault((run.objective, str(sorted(differing_settings.flat(run.settings).items()))), {})
        # Runs without a seed cannot be repetitions.
        key = run.folder.path if run.seed is None else run.seed
        behind, ahead = sorted((same.get(key, run), run), key=lambda run: run.metrics[-1]["step"])
        if behind is not ahead:
            again.append(behind.folder.path)
        same[key] = ahead
    notes = [f"a repeated run does not count: {', '.join(again)}."] if again else []
    return [sorted(same.values(), key=lambda run: run.seed or 0) for same in found.values()], notes


def by_task(groups: Sequence[Sequence[Run]]) -> tuple[list[Record], int]:
    """All tasks with their groups of runs; and the number of runs whose completions would make the page too large."""
    same_task = {}
    for same in groups:
        same_task.setdefault(task_of(same[0]), []).append(same)
    curves = sum(len(run.points) for same in groups for run in same)
    most = min(POINTS, max(FEWEST_POINTS, NUMBERS // max(1, curves)))
    texts, left_out = completions(groups)
    return [task(task_name(kind, same), same, texts, most) for kind, same in same_task.items()], left_out


def task_of(run: Run) -> str | frozenset[str]:
    """Key of comparable runs: the kind of environment, or, if unknown, the names of the experiment's settings."""
    leaves = differing_settings.flat(run.settings)
    if "environment" not in leaves:
        return frozenset(run.folder.config)
    kind, of_task = leaves["environment"], leaves.get("environment.task")
    return f"{kind}({of_task})" if of_task else kind


def task_name(kind: str | frozenset[str], groups: Sequence[Sequence[Run]]) -> str:
    """The kind of environment, or, if unknown, the folders: `runs/seeds=*`."""
    if isinstance(kind, str):
        return kind
    paths = list({run.folder.path for same in groups for run in same})
    # Letter by letter, because a star stands for letters.
    return paths[0] if len(paths) == 1 else f"{os.path.commonprefix(paths)}*"  # noqa: RUF071


def task(name: str, groups: Sequence[Sequence[Run]], texts: Mapping[Run, list[Record]], most: int) -> Record:
    """All runs on one task; `texts` are their completions, `most` is the maximum number of points of a curve."""
    runs = list(itertools.chain(*groups))
    leaves = [differing_settings.flat(same[0].settings) for same in groups]
    short_names = differing_settings.short_names(differing_settings.differing(leaves))
    chosen_names = telling(groups, leaves)
    curves, axes, every = thinned(runs, most)
    named = list(labels(groups, leaves, chosen_names, short_names))
    return {
        "name": name,
        "differing": list(short_names.values()),
        "telling": [short for long, short in short_names.items() if long in set(itertools.chain(*chosen_names))],
        "shared": differing_settings.shared(leaves),
        "groups": [
            {
                "label": label,
                "style": number,
                "objective": same[0].objective,
                "settings": {short: of_group[long] for long, short in short_names.items() if long in of_group},
            }
            for same, of_group, label, number in zip(groups, leaves, named, style_numbers(named), strict=True)
        ],
        "runs": [
            {
                "group": number,
                "seed": run.seed,
                "path": run.folder.path,
                "curves": curves[run],
                "outcomes": outcomes(run),
                "completions": texts[run],
            }
            for number, same in enumerate(groups)
            for run in same
        ],
        "axes": axes,
        "every": every,
        "measures": list(dict.fromkeys(name for run in runs for name in measures(run))),
        "rows": [row(same) for same in groups],
    }


def telling(groups: Sequence[Sequence[Run]], leaves: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """The names of the settings that distinguish each group from others with the same objective."""
    by_objective = {}
    for same, of_group in zip(groups, leaves, strict=True):
        by_objective.setdefault(same[0].objective, []).append(of_group)
    chosen = {objective: differing_settings.telling(rivals) for objective, rivals in by_objective.items()}
    return [chosen[same[0].objective] for same in groups]


def labels(
    groups: Sequence[Sequence[Run]],
    leaves: Sequence[Mapping[str, str]],
    chosen_names: Sequence[Sequence[str]],
    short_names: Mapping[str, str],
) -> Iterator[str]:
    """A unique name for each group: its objective, and the distinguishing settings."""
    taken = Counter()
    for same, of_group, names in zip(groups, leaves, chosen_names, strict=True):
        chosen = [f"{short_names[name]}={of_group[name]}" for name in names if name in of_group]
        label = ", ".join([same[0].objective, *chosen])
        taken[label] += 1
        # Settings that one of the two lacks, because it is of an older version, do not distinguish them.
        yield f"{label} ({taken[label]})" if taken[label] > 1 else label


def thinned(runs: Sequence[Run], most: int) -> tuple[dict[Run, Record], list[list[int]], dict[str, int]]:
    """The curves of the runs, each with about `most` points at most.

    Returns:
      Run -> metric -> number of its axis, values.
      The axes: steps of the training, each list once.
      metric -> stride of the kept records, the same for all runs, so that their steps agree; the last record of each
        run is always kept.
    """
    every = {}
    for run in runs:
        for metric, (steps, _) in run.points.items():
            every[metric] = max(every.get(metric, 1), math.ceil(len(steps) / most))
    axes, curves = {}, {}
    for run in runs:
        curves[run] = {}
        for metric, (steps, values) in run.points.items():
            kept = sorted({*range(0, len(steps), every[metric]), len(steps) - 1})
            axis = axes.setdefault(tuple(steps[i] for i in kept), len(axes))
            curves[run][metric] = [axis, [short(values[i]) for i in kept]]
    return curves, [list(axis) for axis in axes], every


def measures(run: Run) -> list[str]:
    """The final metrics of a run: those of evaluations, or all if it was not evaluated."""
    names = list(run.points)
    return [name for name in names if name.startswith(EVALUATION)] or names


def row(same: Sequence[Run]) -> Record:
    """The line of a group in the table: final measures of complete runs, or of all if none is complete.

    Each is [mean, low, high, mean at step 0]: a 95 % interval over seeds, None for one seed.
    """
    ended = [run for run in same if run.folder.complete]
    counted = ended or same
    cells = {}
    for name in measures(counted[0]):
        curves = [run.points[name] for run in counted if name in run.points]
        ends = [values[-1] for _, values in curves]
        starts = [values[0] for steps, values in curves if steps[0] == 0]
        cells[name] = [*interval(ends), interval(starts)[0]]
    return {
        "runs": len(same),
        "complete": len(ended),
        "step": max(run.metrics[-1]["step"] for run in counted),
        "cells": cells,
    }


def interval(values: Sequence[float | None]) -> list[float | None]:
    """Mean, low and high; None if they do not exist, or are too large."""
    if not values or any(value is None or abs(value) > LARGEST for value in values):
        return [None] * 3
    measured = mean_over_seeds(np.array(values))
    return [short(measured.mean), short(measured.low), short(measured.high)]


def outcomes(run: Run) -> Record | None:
    """The spread of outcomes: at each evaluation the ranked shares, and the rest."""
    records = [
        record
        for record in run.folder.outcomes
        if isinstance(shares := record.get("ranked_shares"), list)
        and all(map(is_number, [*shares, record.get("rest", 0.0)]))
    ]
    if not records:
        return None
    kept = sorted({*range(0, len(records), math.ceil(len(records) / OUTCOME_STEPS)), len(records) - 1})
    return {
        "steps": [records[i]["step"] for i in kept],
        "shares": [[short(share) for share in records[i]["ranked_shares"]] for i in kept],
        "rest": [short(records[i].get("rest", 0.0)) for i in kept],
    }


def completions(groups: Sequence[Sequence[Run]]) -> tuple[dict[Run, list[Record]], int]:
    """Run -> its completions, and the number of runs left without; first seeds come first."""
    room, left_out, kept = CHARACTERS, 0, {}
    for same in itertools.zip_longest(*groups):
        for run in filter(None, same):
            texts = [_completion(record) for record in run.folder.completions]
            room -= sum(len(text["prompt"]) + len(text["completion"]) for text in texts)
            kept[run] = texts if room >= 0 else []
            left_out += room < 0 and bool(texts)
    return kept, left_out


def _completion(record: Record) -> Record:
    reward, outcome = record.get("reward"), record.get("outcome")
    return {
        "step": record["step"],
        "prompt_index": str(record.get("prompt_index", "")),
        "prompt": shortened(str(record.get("prompt", ""))),
        "completion": shortened(str(record.get("completion", ""))),
        "reward": short(reward) if is_number(reward) else None,
        "outcome": None if outcome is None else str(outcome),
    }


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """The beginning of a long text, and how much is missing."""
    return text if len(text) <= longest else f"{text[:longest]} ... ({len(text) - longest} more characters)"


def short(value: float | None) -> float | None:
    """Four digits; None if the value is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.4g}") if value != int(value) or abs(value) >= 1e6 else int(value)
