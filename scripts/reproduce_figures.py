"""Draws every figure and table of the paper and of our own: `python scripts/reproduce_figures.py --preset=demo`.

It is a sweep of the experiments behind them, in OUT: the same command takes up what is missing, and runs nothing again
that is finished. PNG, PDF and CSV of all lie in OUT/figures, and OUT/figures.md has the table: figure, command, time,
our numbers, the paper's, verdict. Where an experiment fails the others go on, and the exit status is 1.

smoke takes seven minutes on two CPU cores and shows only that everything runs; demo is the commands of README.md, an
hour and a half by their times; paper takes hours to days, and was run for few of them.
"""

import argparse
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from experiments.paper.entries import ENTRIES, LEFT_OUT, OF_OUR_OWN, OF_THE_PAPER
from experiments.paper.entry import AGREES_WITHIN, Entry, shown
from experiments.sweeps import launchers
from experiments.sweeps.folder import State, SweepFolder
from experiments.sweeps.launcher import Launcher
from experiments.sweeps.runs import SweepRun, make_run
from experiments.sweeps.sweep import report, sweep
from ipsrl.training.json_files import read_json, replace_file
from ipsrl.training.progress_line import say

PRESETS = ("smoke", "demo", "paper")
SUFFIXES = (".png", ".pdf", ".csv")
RESTARTS = 3
"""How often an experiment that is killed is started again."""

Result = tuple[str, str, str]
"""Of a finished run: its time, its numbers, and the verdict."""


def main(command_line: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="demo", help="size of all experiments (default: demo)")
    parser.add_argument(
        "--only", metavar="NAME", nargs="+", action="extend", help="some of them, also between commas; --list has all"
    )
    parser.add_argument("--out", type=Path, help="folder for all results; runs/figures-PRESET by default")
    parser.add_argument("--launcher", default="local", help="where they run, as of scripts/sweep.py; local by default")
    parser.add_argument("--list", action="store_true", help="show names, commands and what is drawn, and run nothing")
    arguments = parser.parse_args(command_line)
    try:
        given = [name.strip() for names in arguments.only or ENTRIES for name in names.split(",")]
        names = list(dict.fromkeys(filter(None, given)))
        if unknown := [name for name in names if name not in ENTRIES]:
            raise ValueError(f"unknown figure {unknown[0]!r}; known: {', '.join(ENTRIES)}")
        if arguments.list:
            print("\n".join(listed(name, arguments.preset) for name in names))
        else:
            folder = SweepFolder.at(arguments.out or Path("runs") / f"figures-{arguments.preset}")
            reproduce(names, arguments.preset, folder, launchers.make(arguments.launcher))
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("interrupted: the same command goes on with what is missing", file=sys.stderr)
        sys.exit(130)


def listed(name: str, preset: str) -> str:
    entry = ENTRIES[name]
    minutes = f", {entry.minutes:g} min" if preset == "demo" else ""
    return f"{name}: {entry.shows}{minutes}\n    {entry.command(preset)}"


def reproduce(names: Sequence[str], preset: str, folder: SweepFolder, launcher: Launcher) -> None:
    """Runs what is not finished, publishes what it draws, and prints the table.

    Raises:
      ValueError: some could not be run; what has become of them is printed, and the others are published.
    """
    runs = {name: make_run(**entry.request(preset)) for name, entry in ENTRIES.items()}
    names_of = {run.identity: name for name, run in runs.items()}
    chosen = [runs[name] for name in names]

    def after_each(run: SweepRun, state: State) -> None:
        publish(runs, preset, folder)
        say(f"{names_of[run.identity]}: {state}")

    sweep(folder, chosen, launcher, retry=True, restarts=RESTARTS, after_each=after_each)
    print(f"{publish(runs, preset, folder)}\nfigures: {folder.path / 'figures'}, table: {folder.path / 'figures.md'}")
    print(report(folder, chosen))
    if failed := [name for name in names if folder.state(runs[name]) != "finished"]:
        raise ValueError(f"{len(failed)} of {len(names)} failed: {', '.join(failed)}; see {folder.path / 'logs'}")


def publish(runs: Mapping[str, SweepRun], preset: str, folder: SweepFolder) -> str:
    """Copies the figures of what is finished to one place, and writes and returns the table."""
    figures = folder.path / "figures"
    figures.mkdir(exist_ok=True)
    results = {}
    for name, run in runs.items():
        if folder.state(run) == "finished":
            try:
                for suffix in SUFFIXES if ENTRIES[name].figure else ():
                    shutil.copyfile(
                        folder.run_path(run) / f"{ENTRIES[name].figure}{suffix}", figures / f"{name}{suffix}"
                    )
                results[name] = result(ENTRIES[name], preset, folder.run_path(run))
            except (OSError, LookupError, TypeError, ValueError) as error:
                # What one of them has left must not stop the others.
                fault = f"{folder.run_path(run)} cannot be read ({type(error).__name__}: {error})"
                results[name] = ("finished", f"{fault}: move it away to run it anew", "")
    text = document(preset, results)
    replace_file(folder.path / "figures.md", text)
    return text


def result(entry: Entry, preset: str, path: Path) -> Result:
    """What a finished run has in its row."""
    summary = read_json(path / "summary.json")
    verdict = "-" if preset == "smoke" else entry.verdict(summary)
    return duration(seconds_taken(path)), shown(entry.numbers(summary)), verdict


def document(preset: str, results: Mapping[str, Result]) -> str:
    """The tables of all entries as Markdown, with the results of those that are finished."""
    if preset == "smoke":
        verdicts = "A smoke run shows that everything runs; its numbers say nothing, and there are no verdicts."
    else:
        verdicts = (
            "A verdict comes from the numbers of summary.json: whether the claim holds, and which numbers are further "
            f"than {AGREES_WITHIN:.0%} from the paper's. The paper trains Gemma-3 4B on text, we 100,000 parameters: "
            "there the order counts."
        )
    left_out = "\n".join(f"- {what}: {why}." for what, why in LEFT_OUT.items())
    parts = (
        f"# Figures and tables of arXiv 2601.21669, --preset={preset}",
        table(OF_THE_PAPER, "the paper", preset, results),
        "# Figures of our own",
        table(OF_OUR_OWN, "claim", preset, results),
        f"{verdicts} Intervals are 95 % bootstrap intervals over seeds; times are those of the last start.",
        f"Not drawn:\n\n{left_out}\n",
    )
    return "\n\n".join(parts)


def table(entries: Mapping[str, Entry], source: str, preset: str, results: Mapping[str, Result]) -> str:
    """A row for each entry."""
    rows = [("figure or table", "command", "time", "our numbers", source, "verdict"), ("---",) * 6]
    for name, entry in entries.items():
        what = f"[{entry.shows}](figures/{name}.png)" if entry.figure and name in results else entry.shows
        claim = "; ".join(filter(None, (shown(entry.paper), entry.claim)))
        time, numbers, verdict = results.get(name, ("not finished", "", ""))
        rows.append((what, f"`{entry.command(preset)}`", time, numbers, claim, verdict))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def seconds_taken(path: Path) -> float:
    """From the last start of a run to the writing of its summary."""
    begin = read_json(path / "environment.json")[-1]["time"]
    return (path / "summary.json").stat().st_mtime - datetime.fromisoformat(begin).timestamp()


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


if __name__ == "__main__":
    # To be told to end is the same as Ctrl-C: experiments end with their sweep.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
