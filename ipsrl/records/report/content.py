"""Contents of a report, as plain values for its page: its tasks, and what folders hold beside training runs."""

import base64
import importlib.metadata
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ipsrl.checking.regular_files import read_bytes
from ipsrl.records.line_styles import line_styles
from ipsrl.records.monitors import PREFIX
from ipsrl.records.report.recorded_runs import Folder, Record, Run, is_number, runs_of
from ipsrl.records.report.tasks import by_task, grouped, shortened

# Bounds that keep a page of a hundred runs under 20 MB, 5 of which are Plotly's, beside those of `tasks`.
LONGEST_DIFF = 100_000
FIGURE_BYTES = 6_000_000
WARNINGS = 1000

_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}


def content(folders: Sequence[Folder], title: str) -> Record:
    """All content of the page about these folders. Numbers have four digits; non-finite ones are None."""
    groups, notes = grouped([run for folder in folders for run in runs_of(folder)])
    tasks, left_out = by_task(groups)
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
        "styles": plotly_styles(),
        "tasks": tasks,
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
        for png, caption in folder.figures:
            picture = read_bytes(png)
            if len(picture) > room:
                left_out += 1
                continue
            room -= len(picture)
            kept.append(
                {
                    "path": (Path(folder.path) / png.name).as_posix(),
                    "caption": caption,
                    "png": base64.b64encode(picture).decode(),
                }
            )
    return kept, left_out


def changes(folders: Sequence[Folder]) -> list[Record]:
    """The uncommitted changes with which runs were started, each once, and the number of runs that had them."""
    counts = Counter(folder.changes for folder in folders if folder.changes)
    return [{"runs": count, "diff": shortened(text, LONGEST_DIFF)} for text, count in counts.most_common()]


def plotly_styles() -> list[Record]:
    """The colours and dashes of the figures, in Plotly's terms; by the number of a group's style."""
    return [
        {
            "color": line["color"],
            "dash": _DASHES.get(line["linestyle"]) or ",".join(f"{2 * length}px" for length in line["linestyle"][1]),
        }
        for line in line_styles(map(str, range(12))).values()
    ]


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
    """The environments of the runs: versions, devices, commit; each once, with the number of starts."""
    counts = Counter()
    for folder in folders:
        for start in folder.starts:
            entries = {name: value for name, value in start.items() if name not in ("time", "command")}
            counts[tuple((name, _phrase(value)) for name, value in entries.items())] += 1
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
