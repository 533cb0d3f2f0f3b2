"""Draws every figure and table of the paper and of our own: `python scripts/reproduce_figures.py --preset=demo`.

Runs what is missing, one experiment after the other, each with a folder of its own in OUT. PNG, PDF and CSV of all lie
in OUT/figures, and OUT/figures.md has the table: figure, command, time, our numbers, the paper's, verdict. The same
command goes on where an earlier one was interrupted, and runs nothing again that is finished. Where an experiment fails
its last lines are shown, the others go on, and the exit status is 1.

smoke takes about ten minutes on two CPU cores and shows only that everything runs; demo is the commands of README.md,
about two hours by their times; paper takes days, and was run for few of them.
"""

import argparse
import fcntl
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.paper import AGREES_WITHIN, ENTRIES, LEFT_OUT, OF_OUR_OWN, OF_THE_PAPER, Entry, shown
from ipsrl.training.json_files import read_json, replace_file, write_json

ROOT = Path(__file__).resolve().parents[1]
PRESETS = ("smoke", "demo", "paper")
SUFFIXES = (".png", ".pdf", ".csv")
LAST_LINES = 8
"""Of an experiment that failed."""


def main(command_line: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="demo", help="size of all experiments (default: demo)")
    parser.add_argument("--only", metavar="NAME,...", default=",".join(ENTRIES), help="some of them; --list has all")
    parser.add_argument("--out", type=Path, help="folder for all results; runs/figures-PRESET by default")
    parser.add_argument("--list", action="store_true", help="show names, commands and what is drawn, and run nothing")
    arguments = parser.parse_args(command_line)
    chosen = arguments.only.split(",")
    if unknown := [name for name in chosen if name not in ENTRIES]:
        sys.exit(f"error: unknown figure {unknown[0]!r}; known: {', '.join(ENTRIES)}")
    if arguments.list:
        for name in chosen:
            minutes = f", {ENTRIES[name].minutes:g} min" if arguments.preset == "demo" else ""
            print(f"{name}: {ENTRIES[name].shows}{minutes}\n    {typed(ENTRIES[name], arguments.preset)}")
        return
    out = (arguments.out or Path("runs") / f"figures-{arguments.preset}").absolute()
    try:
        (out / "figures").mkdir(parents=True, exist_ok=True)
        with (out / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            failed = reproduce(chosen, arguments.preset, out)
    except BlockingIOError:
        sys.exit(f"error: another process is drawing into {out}; wait until it ends or choose another --out")
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("\ninterrupted: the same command goes on with what is missing", file=sys.stderr)
        sys.exit(130)
    if failed:
        sys.exit(f"error: {len(failed)} of {len(chosen)} failed: {', '.join(failed)}")


def reproduce(names: Sequence[str], preset: str, out: Path) -> list[str]:
    """Runs what is not finished, collects what it draws, writes and prints figures.md; names what failed."""
    failed = []
    for number, name in enumerate(names, 1):
        label = f"[{number}/{len(names)}] {name}"
        if seconds_taken(name, preset, out) is not None:
            print(f"{label}: finished")
            continue
        log, begin = out / f"{name}.log", time.monotonic()
        status = run([*ENTRIES[name].command(preset), f"--out={out / name}", "--resume"], log, label)
        if status == 0:
            seconds = time.monotonic() - begin
            collect(name, preset, seconds, out)
            print(f"{label}: {duration(seconds)}", flush=True)
        else:
            failed.append(name)
            last = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
            print(f"{label}: FAILED with exit status {status}; the end of {log}:", *last, sep="\n    ", flush=True)
        replace_file(out / "figures.md", document(preset, out))
    replace_file(out / "figures.md", document(preset, out))
    print(f"\n{document(preset, out)}\nfigures: {out / 'figures'}, table: {out / 'figures.md'}")
    return failed


def run(arguments: Sequence[str], log: Path, label: str) -> int:
    """The exit status of Python; what it prints goes to a log, and on a terminal its last line is shown as well."""
    begin, watched = time.monotonic(), sys.stderr.isatty()
    with (
        log.open("w") as output,
        subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        try:
            while process.poll() is None:
                time.sleep(0.2)
                if watched:
                    last = log.read_text(errors="replace").splitlines()[-1:]
                    show("  ".join([f"{label}: {duration(time.monotonic() - begin)}", *last]))
        except BaseException:
            process.terminate()
            process.wait()
            raise
        finally:
            if watched:
                show("")
    return process.returncode


def show(line: str) -> None:
    """Puts a line where the last one was."""
    width = shutil.get_terminal_size().columns - 1
    print(line[:width].ljust(width), end="\r", file=sys.stderr, flush=True)


def collect(name: str, preset: str, seconds: float, out: Path) -> None:
    """Copies the figure to the others; the record, which is written last, says that the entry is finished."""
    if figure := ENTRIES[name].figure:
        for suffix in SUFFIXES:
            shutil.copyfile(out / name / f"{figure}{suffix}", out / "figures" / f"{name}{suffix}")
    write_json(out / "figures" / f"{name}.json", {"command": typed(ENTRIES[name], preset), "seconds": seconds})


def seconds_taken(name: str, preset: str, out: Path) -> float | None:
    """How long an entry took; None where its command, as it is now, has not finished, or its folder is gone."""
    path = out / "figures" / f"{name}.json"
    record = read_json(path) if path.exists() and (out / name / "summary.json").exists() else {}
    return record["seconds"] if record.get("command") == typed(ENTRIES[name], preset) else None


def typed(entry: Entry, preset: str) -> str:
    """The command as a user types it."""
    return shlex.join(["python", *entry.command(preset)])


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def document(preset: str, out: Path) -> str:
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
        table(OF_THE_PAPER, "the paper", preset, out),
        "# Figures of our own",
        table(OF_OUR_OWN, "claim", preset, out),
        f"{verdicts} Intervals are 95 % bootstrap intervals over seeds; times are those of the run that finished.",
        f"Not drawn:\n\n{left_out}\n",
    )
    return "\n\n".join(parts)


def table(entries: Mapping[str, Entry], source: str, preset: str, out: Path) -> str:
    """A row for each entry."""
    rows = [("figure or table", "command", "time", "our numbers", source, "verdict"), ("---",) * 6]
    for name, entry in entries.items():
        what, numbers, verdict, seconds = entry.shows, "", "", seconds_taken(name, preset, out)
        if seconds is not None:
            summary = read_json(out / name / "summary.json")
            what = f"[{what}](figures/{name}.png)" if entry.figure else what
            try:
                numbers = shown(entry.numbers(summary))
                verdict = "-" if preset == "smoke" else entry.verdict(summary)
            except (LookupError, TypeError, ValueError) as error:
                numbers = f"{name}/summary.json is of another version ({error}): delete the folder {name}"
        time_taken = "not finished" if seconds is None else duration(seconds)
        claim = "; ".join(filter(None, (shown(entry.paper), entry.claim)))
        rows.append((what, f"`{typed(entry, preset)}`", time_taken, numbers, claim, verdict))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    # The experiment that runs ends with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    main()
