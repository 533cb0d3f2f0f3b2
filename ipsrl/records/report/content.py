"""The content of a report, as plain values for its page."""

import base64
import importlib.metadata
import itertools
import math
import os
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ipsrl.figures import style
from ipsrl.measures.seeds import mean_over_seeds
from ipsrl.records.metric_log import EVALUATION
from ipsrl.records.monitors import PREFIX
from ipsrl.records.report import differing_settings
from ipsrl.records.report.recorded_runs import Folder, Record, Run, is_number, runs_of

# Limits that keep a page of a hundred runs under 20 MB, 5 of which are Plotly's.
POINTS = 2000
FEWEST_POINTS = 50
NUMBERS = 1_500_000
OUTCOME_STEPS = 100
CHARACTERS = 3_000_000
LONGEST_TEXT = 4000
LONGEST_DIFF = 100_000
FIGURE_BYTES = 6_000_000
WARNINGS = 1000

_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}


def content(folders: Sequence[Folder], title: str) -> Record:
    """All content of the page about these folders. Numbers have four digits; non-finite ones are None."""
    groups, notes = grouped([run for folder in folders for run in runs_of(folder)])
    by_task = {}
    for same in groups:
        by_task.setdefault(task_of(same[0]), []).append(same)
    curves = sum(len(run.points) for same in groups for run in same)
    most = min(POINTS, max(FEWEST_POINTS, NUMBERS // max(1, curves)))
    texts, left_out = completions(groups)
    if left_out:
        notes.append(f"the completions of {left_out} runs are left out, because the page would grow too large.")
    drawn, left_out = figures(folders)
    if left_out:
        notes.append(f"{left_out} figures are left out, because the page would grow too large.")
    notes += [note for folder in folders for note in folder.notes]
    bare = [folder.path for folder in folders if not folder.metrics and folder.summary is None]
    if bare:
        notes.append(f"{len(bare)} run folders hold no results yet, such as {bare[0]}.")
    return {
        "title": title,
        "written": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "version": importlib.metadata.version("ipsrl"),
        "folders": len(folders),
        "complete": sum(folder.complete for folder in folders),
        "styles": line_styles(),
        "tasks": [task(task_name(kind, same), same, texts, most) for kind, same in by_task.items()],
        "warnings": warnings(folders),
        "figures": drawn,
        "claims": [claim for folder in folders for claim in claims(folder)],
        "paper": [row for folder in folders for row in beside_paper(folder)],
        "environments": environments(folders),
        "commands": commands(folders),
        "changes": changes(folders),
        "empty": empty(folders, groups),
        "notes": notes,
    }


def empty(folders: Sequence[Folder], groups: Sequence[Sequence[Run]]) -> dict[str, str]:
    """Section -> why it is empty, for the sections that are empty for every task."""
    reasons = {}
    if not groups:
        if any(folder.metrics for folder in folders):
            reason = "No metrics.jsonl here has records of an objective over several steps."
        else:
            reason = "No run here has metrics.jsonl, which training writes step by step."
        reasons = dict.fromkeys(("results", "curves", "outcomes", "completions", "settings"), reason)
    if not any(folder.figures for folder in folders):
        reasons["figures"] = "No folder here has a figure (PNG); an experiment draws one when its runs have ended."
    if not any(True for folder in folders for _ in claims(folder)):
        reasons["claims"] = "No summary.json here has claims; an experiment writes it when its runs have ended."
    if not any(folder.warnings for folder in folders):
        watched = any(name.startswith(PREFIX) for folder in folders for record in folder.metrics for name in record)
        reasons["warnings"] = (
            "No monitor has warned." if watched else "No run here had monitors: no metrics.jsonl has their metrics."
        )
    return reasons


def figures(folders: Sequence[Folder]) -> tuple[list[Record], int]:
    """The figures of the folders with their captions, and the number of figures left out because they are too large."""
    room, left_out, kept = FIGURE_BYTES, 0, []
    for folder in folders:
        for png in folder.figures:
            picture = png.read_bytes()
            if len(picture) > room:
                left_out += 1
                continue
            room -= len(picture)
            caption = png.with_suffix(".txt")
            kept.append(
                {
                    "path": (Path(folder.path) / png.name).as_posix(),
                    "caption": caption.read_text(encoding="utf-8", errors="replace") if caption.exists() else "",
                    "png": base64.b64encode(picture).decode(),
                }
            )
    return kept, left_out


def changes(folders: Sequence[Folder]) -> list[Record]:
    """The uncommitted changes with which runs were started, each once, and the number of runs that had them."""
    counts = Counter(folder.changes for folder in folders if folder.changes)
    return [{"runs": count, "diff": _cut(text, LONGEST_DIFF)} for text, count in counts.most_common()]


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
    told_by = telling(groups, leaves)
    curves, axes, every = thinned(runs, most)
    return {
        "name": name,
        "differing": list(short_names.values()),
        "telling": [short for long, short in short_names.items() if long in set(itertools.chain(*told_by))],
        "shared": differing_settings.shared(leaves),
        "groups": [
            {
                "label": label,
                "objective": same[0].objective,
                "settings": {short: of_group[long] for long, short in short_names.items() if long in of_group},
            }
            for same, of_group, label in zip(groups, leaves, labels(groups, leaves, told_by, short_names), strict=True)
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


def telling(groups: Sequence[Sequence[Run]], leaves: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """For each group the names of the settings that distinguish it from others with the same objective."""
    by_objective = {}
    for same, of_group in zip(groups, leaves, strict=True):
        by_objective.setdefault(same[0].objective, []).append(of_group)
    told = {objective: differing_settings.telling(rivals) for objective, rivals in by_objective.items()}
    return [told[same[0].objective] for same in groups]


def labels(
    groups: Sequence[Sequence[Run]],
    leaves: Sequence[Mapping[str, str]],
    told_by: Sequence[Sequence[str]],
    short_names: Mapping[str, str],
) -> Iterator[str]:
    """A unique name for each group: its objective, and the distinguishing settings."""
    taken = Counter()
    for same, of_group, names in zip(groups, leaves, told_by, strict=True):
        told = [f"{short_names[name]}={of_group[name]}" for name in names if name in of_group]
        label = ", ".join([same[0].objective, *told])
        taken[label] += 1
        # Settings that one of the two lacks, because it is of an older version, do not distinguish them.
        yield f"{label} ({taken[label]})" if taken[label] > 1 else label


def line_styles() -> list[Record]:
    """The colours and dashes of the figures, in Plotly's terms."""
    return [
        {
            "color": line["color"],
            "dash": _DASHES.get(line["linestyle"]) or ",".join(f"{2 * length}px" for length in line["linestyle"][1]),
        }
        for line in style.line_styles(map(str, range(12))).values()
    ]


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


def short(value: float | None) -> float | None:
    """Four digits; None if the value is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.4g}") if value != int(value) or abs(value) >= 1e6 else int(value)


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
    """Mean, low and high; None if they do not exist."""
    if not values or None in values:
        return [None] * 3
    measured = mean_over_seeds(np.array(values))
    return [short(measured.mean), short(measured.low), short(measured.high)]


def outcomes(run: Run) -> Record | None:
    """The spread of outcomes: at each evaluation the ranked shares, and the rest."""
    records = [record for record in run.folder.outcomes if _has_shares(record)]
    if not records:
        return None
    kept = sorted({*range(0, len(records), math.ceil(len(records) / OUTCOME_STEPS)), len(records) - 1})
    return {
        "steps": [records[i]["step"] for i in kept],
        "shares": [[short(share) for share in records[i]["ranked_shares"]] for i in kept],
        "rest": [short(records[i].get("rest", 0.0)) for i in kept],
    }


def _has_shares(record: Record) -> bool:
    shares = record.get("ranked_shares")
    return isinstance(shares, list) and all(map(is_number, [*shares, record.get("rest", 0.0)]))


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
        "prompt": _cut(str(record.get("prompt", ""))),
        "completion": _cut(str(record.get("completion", ""))),
        "reward": short(reward) if is_number(reward) else None,
        "outcome": None if outcome is None else str(outcome),
    }


def _cut(text: str, longest: int = LONGEST_TEXT) -> str:
    return text if len(text) <= longest else f"{text[:longest]} ... ({len(text) - longest} more characters)"


def warnings(folders: Sequence[Folder]) -> Record:
    """Warnings of monitors: the first `WARNINGS`, and their number."""
    listed = [
        {"path": folder.path, "step": record["step"], **{k: str(record.get(k, "")) for k in ("monitor", "message")}}
        for folder in folders
        for record in folder.warnings
    ]
    return {"count": len(listed), "listed": listed[:WARNINGS]}


def claims(folder: Folder) -> Iterator[Record]:
    """Claims checked by an experiment: its `claims`, None for undecided ones, and other truth values."""

    def walk(value: Any, names: tuple[str, ...]) -> Iterator[Record]:
        if isinstance(value, dict):
            for name, inner in value.items():
                yield from walk(inner, names if name in ("checks", "claims") else (*names, name))
        elif isinstance(value, bool) and names != ("complete",):
            yield {"path": folder.path, "claim": ": ".join(names), "holds": value}

    summary = folder.summary or {}
    stated = summary.get("claims")
    if isinstance(stated, dict):
        undecided = [claim for claim, holds in stated.items() if holds is None]
        yield from ({"path": folder.path, "claim": claim, "holds": None} for claim in undecided)
    yield from walk(summary, ())


def beside_paper(folder: Folder) -> Iterator[Record]:
    """Our numbers beside a paper's, by label: the `paper` of a summary, {label: {"ours": ..., "paper": ...}}."""
    table = (folder.summary or {}).get("paper")
    for label, numbers in table.items() if isinstance(table, dict) else ():
        if isinstance(numbers, dict):
            shown = {whose: _number(numbers.get(whose)) for whose in ("ours", "paper")}
            yield {"path": folder.path, "label": label, **shown}


def _number(value: Any) -> str:
    """A number, or a mean with its interval over seeds, as a text."""
    if isinstance(value, dict) and is_number(value.get("mean")):
        low, high, seeds = (value.get(name) for name in ("low", "high", "seeds"))
        between = f" [{low:.4g}, {high:.4g}]" if is_number(low) and is_number(high) else ""
        return f"{value['mean']:.4g}{between}{f', {seeds} seeds' if is_number(seeds) else ''}"
    return f"{value:.4g}" if is_number(value) else "unknown" if value is None else str(value)


def environments(folders: Sequence[Folder]) -> list[Record]:
    """Where the runs have run: versions, devices, commit; each once, with the number of starts."""
    counts = Counter()
    for folder in folders:
        for start in folder.starts:
            told = {name: value for name, value in start.items() if name not in ("time", "command")}
            counts[tuple((name, _phrase(value)) for name, value in told.items())] += 1
    return [{"starts": count, "entries": dict(entries)} for entries, count in counts.most_common()]


def _phrase(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{count} x {name}" for name, count in Counter(map(str, value)).items())
    return "unknown" if value is None else str(value)


def commands(folders: Sequence[Folder]) -> list[str]:
    """The commands that first started the runs, each once; none for versions that did not record them."""
    found = [folder.starts[0]["command"] for folder in folders if folder.starts and "command" in folder.starts[0]]
    return list(dict.fromkeys(_with_plain_python(str(command)) for command in found))


def _with_plain_python(command: str) -> str:
    """Replaces the interpreter's path, which differs between machines."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError:
        return command
    return shlex.join(["python", *arguments]) if Path(program).name.startswith("python") else command
