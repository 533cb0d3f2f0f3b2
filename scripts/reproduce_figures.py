"""Draws every figure and table of the paper and of our own: `python scripts/reproduce_figures.py --preset=demo`.

It is a sweep of the studies in `experiments/`, in OUT: the same command continues with what is missing, and repeats
nothing that is finished. PNG, PDF and CSV of all are in OUT/figures, and OUT/figures.md has the table: figure, command,
time, our numbers, the paper's, verdict. --document=docs/figures.md also writes the table there, between its marks, and
redraws the figures that lie beside it; --claims=docs/claims writes the results of the studies that test a claim of a
paper beside them, and their pages there; of several figures of a study the first counts. Rows and pages of other
studies stay. If a study fails, the others continue, and the exit status is 1.

smoke shows only that everything runs; demo takes hours, paper hours to days, and was run for only a few of them.
`python -m experiments` lists all studies with their times.
"""

import argparse
import shutil
import signal
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.reproduce_figures")

from ipsrl.checking.specifications import did_you_mean
from ipsrl.command import extensions
from ipsrl.command.definitions import Module
from ipsrl.command.ending import Ending
from ipsrl.marked_page import Marks
from ipsrl.records.json_files import read_json, replace_file, require_file, write_json
from ipsrl.records.progress_line import report_line
from ipsrl.study import catalog, claims
from ipsrl.study.pages import claim_pages, published
from ipsrl.study.settings import resolve
from ipsrl.study.study import Study, Variant
from ipsrl.sweeps import launcher_catalog
from ipsrl.sweeps.launcher import Launcher
from ipsrl.sweeps.sweep import report, sweep
from ipsrl.sweeps.sweep_folder import State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun, make_run

PRESETS = ("smoke", "demo", "paper")
SUFFIXES = (".png", ".pdf", ".csv")
RESTARTS = 3
"""Maximum number of restarts of a killed study."""

MARKS = Marks("<!-- The table is written by scripts/reproduce_figures.py. -->", "<!-- Here the table ends. -->")
CLAIMS_WIDTH = 1200
"""Pixels of a figure on a page of claims."""

Figures = Mapping[str, tuple[Study, Variant]]
Result = tuple[str, str, str, str]
"""A finished run: its time, its numbers, the paper's, and the verdict."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--preset", choices=PRESETS, default="demo", help="size of all studies (default: demo)")
    made.add_argument(
        "--only",
        metavar="NAME",
        nargs="+",
        action="extend",
        help="some of them, also separated by commas; --list prints all",
    )
    made.add_argument("--out", type=Path, help="folder for all results; runs/figures-PRESET by default")
    made.add_argument("--document", type=Path, metavar="PAGE.md", help="a page with marks for the table")
    made.add_argument("--claims", type=Path, metavar="FOLDER", help="a folder for the pages of claims, docs/claims")
    made.add_argument("--launcher", default="local", help="where they run, see scripts/sweep.py; local by default")
    made.add_argument("--extensions", default="", help=extensions.FLAG_HELP)
    made.add_argument("--list", action="store_true", help="print names, commands and titles, and run nothing")
    return made


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError if a flag is wrong, as far as that is known before the imports."""
    check_places(arguments)
    if arguments.only and not (arguments.extensions or extensions.loaded()):
        studies = {name: Module(catalog.module_name(name)) for name in catalog.names()}
        chosen(arguments.only, [figure for name in studies for figure in getattr(studies[name], "VARIANTS", [name])])


def check_places(arguments: argparse.Namespace) -> None:
    """Raises ValueError if there is no such launcher, no page at --document, or no folder at --claims."""
    launcher_catalog.make(arguments.launcher)
    if (page := arguments.document) is not None:
        require_file(page, "--document")
        if not page.exists():
            raise ValueError(f"--document={page}: there is no such page; write one with marks, as docs/figures.md")
        MARKS.content(page.read_text())
    if arguments.claims is not None and not arguments.claims.is_dir():
        raise ValueError(f"--claims={arguments.claims} is no folder: make it, or give docs/claims")


def chosen(only: Sequence[str], figures: Iterable[str]) -> list[str]:
    """The names in the texts of --only.

    Raises:
      ValueError: there is none, or one is not among the figures.
    """
    given = [name.strip() for names in only for name in names.split(",")]
    names = list(dict.fromkeys(filter(None, given)))
    if not names:
        raise ValueError("--only names no figure; --list prints all")
    if unknown := [name for name in names if name not in figures]:
        raise ValueError(f"unknown figure {unknown[0]!r}; {did_you_mean(unknown[0], figures)}")
    return names


def main(command_line: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(command_line)
    # SIGTERM is treated like Ctrl-C: studies end with their sweep.
    with Ending("the same command continues with what is missing", (signal.SIGINT, signal.SIGTERM)):
        check_places(arguments)
        extensions.load(arguments.extensions)
        if not (figures := catalog.drawn()):
            raise ValueError("there is no study here: run it in a checkout, which has the folder experiments")
        names = chosen(arguments.only or list(figures), figures)
        # Some studies have no preset `paper`.
        figures = {name: of for name, of in figures.items() if arguments.preset in of[0].presets}
        if arguments.only and (missing := [name for name in names if name not in figures]):
            raise ValueError(f"{missing[0]} has no preset {arguments.preset}: leave it out")
        names = [name for name in names if name in figures]
        if arguments.list:
            for name in names:
                print(f"{name}: {figures[name][1].shows}\n    {command(*figures[name], arguments.preset)}")
        else:
            folder = SweepFolder.at(arguments.out or Path("runs") / f"figures-{arguments.preset}")
            launcher = launcher_catalog.make(arguments.launcher)
            reproduce(figures, names, arguments.preset, folder, launcher, arguments.document, arguments.claims)


def command(study: Study, variant: Variant, preset: str) -> str:
    return study.command(preset, variant.flags.get(preset))


def reproduce(
    figures: Figures,
    names: Sequence[str],
    preset: str,
    folder: SweepFolder,
    launcher: Launcher,
    document: Path | None = None,
    claims_folder: Path | None = None,
) -> None:
    """Runs unfinished studies, publishes their figures, and prints the table.

    Raises:
      ValueError: some studies failed; their states are printed, and the others are published.
    """
    runs = {
        name: make_run(study.name, preset, **variant.flags.get(preset, {}))
        for name, (study, variant) in figures.items()
    }
    names_of = {run.identity: name for name, run in runs.items()}
    chosen = [runs[name] for name in names]

    def after_each(run: SweepRun, state: State) -> None:
        publish(figures, runs, names, preset, folder)
        report_line(f"{names_of[run.identity]}: {state}")

    sweep(folder, chosen, launcher, retry=True, restarts=RESTARTS, after_each=after_each)
    results = publish(figures, runs, names, preset, folder)
    if document is not None:
        write_document(document, figures, preset, results, folder)
    if claims_folder is not None:
        write_claims(claims_folder, figures, preset, {name: folder.run_path(runs[name]) for name in results})
    print(f"{(folder.path / 'figures.md').read_text()}\nfigures: {folder.path / 'figures'}")
    print(report(folder, chosen))
    if failed := [name for name in names if folder.state(runs[name]) != "finished"]:
        raise ValueError(f"{len(failed)} of {len(names)} failed: {', '.join(failed)}; see {folder.path / 'logs'}")


def publish(
    figures: Figures, runs: Mapping[str, SweepRun], names: Sequence[str], preset: str, folder: SweepFolder
) -> dict[str, Result]:
    """Copies the figures of finished studies to one place, and writes the table of these and of `names`.

    Returns:
      name -> result, of all finished ones.
    """
    to = folder.path / "figures"
    to.mkdir(exist_ok=True)
    results = {}
    for name, run in runs.items():
        if folder.state(run) == "finished":
            path, study = folder.run_path(run), figures[name][0]
            try:
                for suffix in SUFFIXES if study.figure is not None else ():
                    if (path / f"{study.name}{suffix}").exists():
                        shutil.copyfile(path / f"{study.name}{suffix}", to / f"{name}{suffix}")
                results[name] = result(path)
            except (OSError, LookupError, TypeError, ValueError) as error:
                # An unreadable run must not stop the others.
                fault = f"{path} cannot be read ({type(error).__name__}: {error})"
                results[name] = ("finished", f"{fault}: move it away to run it again", "", "")
    shown = {name: of for name, of in figures.items() if name in {*names, *results}}
    replace_file(folder.path / "figures.md", page(shown, preset, results))
    return results


def write_document(
    document: Path, figures: Figures, preset: str, results: Mapping[str, Result], folder: SweepFolder
) -> None:
    """Writes the table between the marks of a page, and replaces the figures beside it that no study writes by itself.

    Rows of the page for figures without a result stay. A figure that has a page of its own, see `write_claims`, has no
    row unless its numbers stand beside the paper's.
    """
    text = document.read_text()
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if line.startswith("| ")}
    of_page = {
        name: (study, variant)
        for name, (study, variant) in figures.items()
        if study.paper or not (claim_pages.has_page(study, name) and claim_pages.result_path(study).exists())
    }
    shown = {name: of for name, of in of_page.items() if name in results or of[1].shows in rows}
    replace_file(document, MARKS.filled(text, page(shown, preset, results, rows)))
    for name in of_page.keys() & results.keys():
        note(document, name, figures, preset)
    published.keep(document, shown)
    for name, (study, _) in figures.items():
        drawn, beside = folder.path / "figures" / f"{name}.png", document.parent / f"{name}.png"
        if drawn.exists() and beside.exists() and not hasattr(study.module, "documents"):
            shutil.copyfile(drawn, beside)


def write_claims(folder: Path, figures: Figures, preset: str, paths: Mapping[str, Path]) -> None:
    """Writes the results of each finished run of a study that tests a claim of a paper, and the pages of all of them.

    Of a study with several figures the run of the first gives the results.

    Args:
      folder: of the pages.
      paths: name of the figure -> folder of its run.
    """
    for name, path in paths.items():
        study, variant = figures[name]
        if claim_pages.has_page(study, name):
            settings = resolve(study.presets, preset, variant.flags.get(preset, {}))
            summary, how = read_json(path / "summary.json"), command(study, variant, preset)
            write_json(claim_pages.result_path(study), claim_pages.result(study, settings, summary, how))
            if (drawn := path / f"{study.name}.png").exists():
                shrink(drawn, folder / drawn.name)
    claim_pages.write(folder, catalog.every().values())


def shrink(drawn: Path, to: Path) -> None:
    """Copies a picture, at most `CLAIMS_WIDTH` wide and in 64 colours: a tenth of its bytes."""
    from PIL import Image

    with Image.open(drawn) as picture:
        picture.thumbnail((CLAIMS_WIDTH, picture.height))
        picture.convert("RGB").quantize(64).save(to, optimize=True)


def note(document: Path, name: str, figures: Figures, preset: str) -> None:
    """Keeps beside the page what a figure was made of."""
    study, variant = figures[name]
    settings = resolve(study.presets, preset, variant.flags.get(preset, {}))
    published.note(document, name, study, settings)


def result(path: Path) -> Result:
    """The cells of a finished run's row."""
    summary = read_json(path / "summary.json")
    paper = {label: both["paper"] for label, both in summary["paper"].items()}
    # Without numbers beside those of its claims, a study shows these.
    numbers = summary["numbers"] or {each["of"]: each for each in summary["decisive"].values()}
    return (
        duration(seconds_taken(path)),
        claims.shown(numbers),
        claims.shown(paper),
        summary["verdict"] or "-",
    )


def page(figures: Figures, preset: str, results: Mapping[str, Result], known: Mapping[str, str] | None = None) -> str:
    """The table as Markdown, with the results of finished studies.

    Args:
      known: first cell -> the row, for figures without a result.
    """
    head = ("figure or table", "claims", "command", "time", "our numbers", "the paper's", "verdict")
    rows = [markdown_row(head), markdown_row(("---",) * len(head))]
    for name, (study, variant) in figures.items():
        cells = results.get(name, ("not finished", "", "", ""))
        row = markdown_row((variant.shows, "; ".join(study.claims), f"`{command(study, variant, preset)}`", *cells))
        rows.append(row if name in results else (known or {}).get(variant.shows, row))
    not_drawn = [study for study in catalog.every().values() if not study.variants]
    left_out = "\n".join(f"- `{study.command()}`: {study.header.get('Time', '')}" for study in not_drawn)
    parts = (
        f"`python scripts/reproduce_figures.py --preset={preset}` makes a run of each study:",
        "\n".join(rows),
        EXPLAINED["smoke" if preset == "smoke" else "others"],
        f"Not drawn:\n\n{left_out}" if left_out else "",
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


EXPLAINED = {
    "smoke": "A smoke run shows that everything runs; its numbers say nothing, and there are no verdicts.",
    "others": (
        "A verdict comes from the records of the run: whether all claims hold that it can decide, and which numbers "
        f"are more than {claims.AGREES_WITHIN:.0%} off the paper's. The paper trains Gemma-3 4B on text, we 100,000 "
        "parameters: there the order counts. Intervals are 95 % intervals over seeds; times are those of the "
        "last start."
    ),
}


def seconds_taken(path: Path) -> float:
    """Seconds from the last start of a run to its summary."""
    begin = read_json(path / "environment.json")[-1]["time"]
    return (path / "summary.json").stat().st_mtime - datetime.fromisoformat(begin).timestamp()


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


if __name__ == "__main__":
    main()
