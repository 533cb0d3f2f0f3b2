"""Writes one HTML page about all runs in a folder: `python scripts/report.py DIR [--out=FILE.html] [--title=...]`.

The page needs no network and no other file: a table of the measures at the end with intervals over seeds, curves to
zoom into, how outcomes were spread over training, answers before and after, warnings, settings, and how to run it all
again. It is made anew at every call; runs that are still going are shown as far as they are.
"""

import sys

from absl import app, flags

from ipsrl.report.page import write_report

FLAGS = flags.FLAGS


def main(arguments: list[str]) -> None:
    try:
        if len(arguments) != 2:
            raise ValueError("name one folder that holds runs: python scripts/report.py DIR [--out=FILE.html]")
        out = write_report(arguments[1], FLAGS.out, FLAGS.title)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(f"report: {out}")


if __name__ == "__main__":
    flags.DEFINE_string("out", None, "File of the page; DIR/report.html by default.")
    flags.DEFINE_string("title", None, "Title of the page; the name of DIR by default.")
    app.run(main)
