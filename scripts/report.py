"""Writes one HTML page about all runs in a folder: `python scripts/report.py DIR [--out=FILE.html] [--title=...]`.

The page needs no network and no other file: a table of the final measures with intervals over seeds, interactive
curves, the spread of outcomes over training, answers before and after, warnings, settings, and the commands. It is made
anew at every call; unfinished runs are shown with the records they have.
"""

import argparse
from collections.abc import Sequence

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.report")

from ipsrl import extras
from ipsrl.checking.paths import require_readable
from ipsrl.command.ending import Ending
from ipsrl.records.discovery import require_folder
from ipsrl.records.report.page import write_report


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("folder", metavar="DIR", help="folder with runs, at any depth")
    made.add_argument("--out", metavar="FILE", help="where to write the page; DIR/report.html by default")
    made.add_argument("--title", help="of the page; the name of DIR by default")
    return made


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError if a text is not in UTF-8, the folder does not exist, or the extra [analysis] is missing."""
    for name in ("out", "title"):
        require_readable(getattr(arguments, name) or "", f"--{name}")
    require_folder(arguments.folder)
    extras.require("plotly")


def main(command_line: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(command_line)
    with Ending():
        check(arguments)
        print(f"report: {write_report(arguments.folder, arguments.out, arguments.title)}")


if __name__ == "__main__":
    main()
