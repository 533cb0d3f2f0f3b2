"""Disturbs training, and writes docs/reliability.md: `python scripts/reliability.py`.

kills       300 SIGKILLs at random moments, of single runs, runs as one program, sweeps, two hosts and a language model;
            each killed run is continued until its end and compared with an undisturbed one. Two hours on two CPU cores.
full_disk   50 sweeps on a disk that fills up at a random byte, and are continued when there is room. Needs root, or
            unshare --map-root-user --mount before the command. Half an hour.
long_run    100,000 steps of a bandit with checkpoints: memory and open files. Ten minutes.
refusals    every bad command and call of tests/hostile, and how soon 100 new processes refuse. Ten minutes.

Prints a line for each run. Results go to docs/reliability.json, from which the tables of docs/reliability.md are
written. The same command continues where it was stopped: what has been tried with this seed is not tried again, except
with --anew. Exits with 1 if anything was lost.

    --only=a,b    only these trials
    --cases=a,b   only these kinds of runs: single, vmapped, sweep, hosts, lora
    --count=N     kills in all, points, steps or processes, for one trial, as in --only=kills --cases=single --count=20
    --seed=N      of the random moments; 0
    --work=DIR    folder for the runs; build/reliability. Runs that differ stay there
    --results=F   another file than docs/reliability.json; tables are written to the .md beside it, if there is one
    --anew        forgets what has been tried in these trials
"""

import argparse
import math
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.reliability")
    # Where it runs as a module, Python does not put its folder on the path.
    sys.path.append(str(Path(__file__).parent))

from ipsrl.command.ending import Ending
from ipsrl.marked_page import Marks
from ipsrl.records.json_files import read_json, require_file, write_json
from trials import full_disk, kills, long_run, refusals
from trials.cases import CASES
from trials.processes import ROOT

MARKS = Marks("<!-- The tables are written by scripts/reliability.py. -->", "<!-- Here the tables end. -->")
COUNTS = {"kills": sum(case.kills for case in CASES), "full_disk": 50, "long_run": 100_000, "refusals": 100}
Row = dict[str, Any]


class Results:
    """The rows of what has been tried, in a file.

    Args:
      path: the file, and beside it the page.
      known: attributes of every new row: seed, time, versions, commit, command.
    """

    def __init__(self, path: Path, known: Row):
        self.path, self.known = path, known
        self.rows: list[Row] = read_json(path) if path.exists() else []

    def forget(self, **which: Any) -> None:
        """Drops rows."""
        self.rows = [row for row in self.rows if any(row[name] != value for name, value in which.items())]

    def has(self, **which: Any) -> bool:
        """Whether this has been tried with this seed."""
        which |= {"seed": self.known["seed"]}
        return any(all(row[name] == value for name, value in which.items()) for row in self.rows)

    def add(self, row: Row) -> None:
        """Keeps a row, and writes file and page."""
        self.rows.append(self.known | row)
        self.rows.sort(key=lambda row: (list(COUNTS).index(row["trial"]), _place(row["case"]), row["number"]))
        write_json(self.path, self.rows)
        page = self.path.with_suffix(".md")
        if page.exists():
            page.write_text(MARKS.filled(page.read_text(), tables(self.rows)))
        found = "; ".join(row["problems"][:3]) or "equal"
        what = ", ".join(f"{name} {row[name]}" for name in row if name not in ("trial", "case", "number", "problems"))
        print(f"{row['trial']} {row['case']} {row['number']}: {what}: {found}", flush=True)


def _place(case: str) -> int:
    return [*(case.name for case in CASES), "sweep on a full disk", "bandit", "bad input"].index(case)


def try_kills(results: Results, names: Sequence[str], count: int, work: Path) -> None:
    chosen = [case for case in CASES if not names or case.name in names]
    in_all = sum(case.kills for case in chosen)
    for case in chosen:
        left = math.ceil(count * case.kills / in_all)
        parts = [case.kills_per_run] * (left // case.kills_per_run) + [left % case.kills_per_run]
        planned = [
            (number, part)
            for number, part in enumerate(parts)
            if part and not results.has(trial="kills", case=case.name, number=number, planned=part)
        ]
        like = kills.undisturbed(case, work) if planned else None
        for number, part in planned:
            started = time.monotonic()
            found = kills.trial(case, number, part, results.known["seed"], like, work)
            seconds = round(time.monotonic() - started, 1)
            results.add(
                {"trial": "kills", "case": case.name, "number": number, "planned": part, **found, "seconds": seconds}
            )


def try_full_disk(results: Results, count: int, work: Path) -> None:
    case = "sweep on a full disk"
    planned = [number for number in range(count) if not results.has(trial="full_disk", case=case, number=number)]
    if not planned:
        return
    (work / "full_disk").mkdir(parents=True, exist_ok=True)
    with full_disk.small_disk(work / "disk") as disk:
        like, used = full_disk.undisturbed(disk, work / "full_disk")
        for number in planned:
            started = time.monotonic()
            found = full_disk.trial(number, results.known["seed"], like, used, disk, work / "full_disk")
            seconds = round(time.monotonic() - started, 1)
            results.add(
                {"trial": "full_disk", "case": case, "number": number, "used": used, **found, "seconds": seconds}
            )


def try_long_run(results: Results, steps: int, work: Path) -> None:
    if results.has(trial="long_run", case="bandit", number=0, steps=steps):
        return
    results.forget(trial="long_run")
    folder = work / "long_run" / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    started = time.monotonic()
    found = long_run.trial(steps, folder)
    seconds = round(time.monotonic() - started, 1)
    results.add({"trial": "long_run", "case": "bandit", "number": 0, "steps": steps, **found, "seconds": seconds})


def try_refusals(results: Results, fresh: int, work: Path) -> None:
    if results.has(trial="refusals", case="bad input", number=0, fresh=fresh):
        return
    results.forget(trial="refusals")
    with tempfile.TemporaryDirectory(dir=work) as folder:
        started = time.monotonic()
        found = refusals.trial(fresh, results.known["seed"], Path(folder))
    seconds = round(time.monotonic() - started, 1)
    results.add({"trial": "refusals", "case": "bad input", "number": 0, **found, "seconds": seconds})


def tables(rows: Sequence[Row]) -> str:
    """The results as Markdown, each table with its date, versions and commands."""
    return "\n\n".join(
        "\n".join(lines) for lines in (_kills(rows), _full_disk(rows), _long_run(rows), _refusals(rows)) if lines
    )


def _kills(rows: Sequence[Row]) -> list[str]:
    there = [row for row in rows if row["trial"] == "kills"]
    lines = [
        "| killed and continued | kills | of them before the first record | runs | equal to the undisturbed run |",
        "|---|---|---|---|---|",
    ]
    for case in CASES:
        if of_case := [row for row in there if row["case"] == case.name]:
            killed, early = (sum(row[name] for row in of_case) for name in ("kills", "in_start_up"))
            runs = sum(row["runs"] for row in of_case)
            equal = sum(row["runs"] for row in of_case if not row["problems"])
            lines.append(f"| {case.title} | {killed} | {early} | {runs} | {equal} |")
    return [_heading(there), "", *lines, *_problems(there)] if there else []


def _full_disk(rows: Sequence[Row]) -> list[str]:
    there = [row for row in rows if row["trial"] == "full_disk"]
    if not there:
        return []
    failed = [row for row in there if row["status"]]
    return [
        _heading(there),
        "",
        "| room, KiB | points | the sweep failed | it said why | tracebacks | equal after room was made |",
        "|---|---|---|---|---|---|",
        f"| {min(row['room'] for row in there) >> 10} to {max(row['room'] for row in there) >> 10} of "
        f"{there[0]['used'] >> 10} | {len(there)} | {len(failed)} | {sum(row['in_words'] for row in failed)} | "
        f"{sum(row['tracebacks'] for row in there)} | {sum(not row['problems'] for row in there)} |",
        *_problems(there),
    ]


def _long_run(rows: Sequence[Row]) -> list[str]:
    there = [row for row in rows if row["trial"] == "long_run"]
    if not there or "memory" not in there[0]:
        return []
    [row] = there
    parts = len(row["memory"])
    return [
        _heading(there),
        "",
        "| steps until | " + " | ".join(f"{row['steps'] * (i + 1) // parts:,}" for i in range(parts)) + " |",
        "|---" * (parts + 1) + "|",
        "| resident memory, MiB | " + " | ".join(f"{value:.1f}" for value in row["memory"]) + " |",
        "| open files, at least | " + " | ".join(map(str, row["descriptors"])) + " |",
        "",
        f"Growth of the memory after warm-up: {row['growth']:.2%}.",
        *_problems(there),
    ]


def _refusals(rows: Sequence[Row]) -> list[str]:
    there = [row for row in rows if row["trial"] == "refusals"]
    if not there:
        return []
    [row] = there
    return [
        _heading(there),
        "",
        "| bad commands | bad calls | tracebacks | accepted | refused otherwise than they should |",
        "|---|---|---|---|---|",
        f"| {row['commands']} | {row['calls']} | {row['tracebacks']} | {row['accepted']} | {row['otherwise']} |",
        "",
        f"Of {row['fresh']} of these commands, each in a new process, the median one is refused after "
        f"{row['median']:.2f} s, the slowest after {row['longest']:.2f} s.",
        *_problems(there),
    ]


def _heading(rows: Sequence[Row]) -> str:
    """Commands, dates, commits, versions and time of rows."""

    def each(name: str) -> str:
        return ", ".join(sorted({row[name] for row in rows}))

    minutes = sum(row["seconds"] for row in rows) / 60
    commands = ", ".join(f"`{command}`" for command in sorted({row["command"] for row in rows}))
    return f"{commands}, {each('date')}, commit {each('commit')}, {each('versions')}, {minutes:.0f} minutes:"


def _problems(rows: Sequence[Row]) -> list[str]:
    found = [
        f"- {row['case']}, run {row['number']}, seed {row['seed']}: {'; '.join(row['problems'][:5])}"
        for row in rows
        if row["problems"]
    ]
    return ["", "What differed:", "", *found] if found else []


def described(seed: int, arguments: Sequence[str]) -> Row:
    """The fields that every row of this start has: seed, date, commit, versions and command."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=ROOT, capture_output=True, text=True
    )
    return {
        "seed": seed,
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit.stdout.strip() or "unknown",
        "versions": f"Python {platform.python_version()}, jax {version('jax')}, orbax {version('orbax-checkpoint')}",
        "command": shlex.join(["python", "scripts/reliability.py", *arguments]),
    }


def listed(text: str, known: Sequence[str]) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise ValueError(f"unknown name {name!r}: choose among {', '.join(known)}")
    return names


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    made.add_argument("--only", default="", help="trials, separated by commas")
    made.add_argument("--cases", default="", help="kinds of runs that are killed, separated by commas")
    made.add_argument("--count", type=int, help="kills in all, points, steps or processes")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--work", type=Path, default=ROOT / "build" / "reliability")
    made.add_argument("--results", type=Path, default=ROOT / "docs" / "reliability.json")
    made.add_argument("--anew", action="store_true", help="forget what has been tried in these trials")
    return made


def check(options: argparse.Namespace) -> None:
    """Raises ValueError if a trial or case is unknown, a count is of no trial, or --results cannot be a file."""
    only = listed(options.only, list(COUNTS))
    listed(options.cases, [case.name for case in CASES])
    if options.count is not None and (len(only) != 1 or options.count < 1):
        raise ValueError("--count is a positive number, for one trial: name it by --only")
    require_file(options.results, "--results")


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(arguments)
    check(options)
    only = listed(options.only, list(COUNTS)) or list(COUNTS)
    cases = listed(options.cases, [case.name for case in CASES])
    results = Results(options.results, described(options.seed, arguments))
    work = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    for name in only:
        count = options.count or COUNTS[name]
        if options.anew:
            for case in cases if name == "kills" and cases else {row["case"] for row in results.rows}:
                results.forget(trial=name, case=case)
        if name == "kills":
            if cases and options.count is None:
                count = sum(case.kills for case in CASES if case.name in cases)
            try_kills(results, cases, count, work)
        elif name == "full_disk":
            try_full_disk(results, count, work)
        elif name == "long_run":
            try_long_run(results, count, work)
        else:
            try_refusals(results, count, work)
    return int(any(row["problems"] for row in results.rows if row["trial"] in only))


if __name__ == "__main__":
    with Ending("the same command continues"):
        sys.exit(main())
