"""The page of a report: one self-contained HTML file."""

import html
import json
import re
import sys
from importlib import resources
from pathlib import Path
from typing import Any

from ipsrl import extras
from ipsrl.checking.arguments import checked
from ipsrl.printable import printable
from ipsrl.records.json_files import replace_file
from ipsrl.records.report.content import content
from ipsrl.records.report.recorded_runs import read_folders

# In the order of their dependencies.
SCRIPTS = ("page.js", "plots.js", "outcomes.js", "start.js")


@checked
def write_report(root: str | Path, out: str | Path | None = None, title: str | None = None) -> Path:
    """Writes a page about all runs in the folder `root`, atomically, and returns its path.

    What could not be read is said on the page, and on stderr in one line each. `out` is report.html in `root` by
    default, and the title the name of the folder.

    Raises:
      ValueError: there is no run, `out` does not end in .html, its folder does not exist, or Plotly is not installed.
    """
    extras.require("plotly")
    from plotly.offline import get_plotlyjs

    if out is not None and (Path(out).suffix != ".html" or not Path(out).parent.is_dir()):
        raise ValueError(f"{out} cannot be written: name a file that ends in .html, in a folder that exists")
    folders = read_folders(root)
    for note in (note for folder in folders for note in folder.notes):
        print(printable(note), file=sys.stderr)
    out = Path(out or Path(root, "report.html"))
    replace_file(out, page(content(folders, title or f"Runs in {Path(root).resolve().name}"), get_plotlyjs()))
    return out


def page(shown: dict[str, Any], bundle: str) -> str:
    """The HTML of a page that shows a `content`, with the JavaScript of Plotly as its bundle.

    The texts of the content come from runs, and are never interpreted as HTML.
    """
    parts = {
        "title": html.escape(shown["title"]),
        "style": _file("page.css"),
        "plotly": bundle,
        "content": embedded(shown),
        "script": "".join(map(_file, SCRIPTS)),
    }
    # In one pass, because inserted text may contain such marks itself.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], _file("page.html"))


def embedded(value: Any) -> str:
    """JSON that is safe in a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _file(name: str) -> str:
    return resources.files("ipsrl.records.report").joinpath(name).read_text(encoding="utf-8")
