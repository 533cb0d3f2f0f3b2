"""Writes docs/claims and the README's table of claims: `python scripts/claims_table.py`.

Of each study with a headline and a `result.json`, which `scripts/reproduce_figures.py --claims=docs/claims` writes,
from that and the study's header: after a change of words no run is needed.
"""

import argparse
from pathlib import Path

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.claims_table")

from ipsrl.command import extensions
from ipsrl.command.ending import Ending
from ipsrl.marked_page import Marks
from ipsrl.records.json_files import read_json, replace_file
from ipsrl.study import catalog
from ipsrl.study.pages import claim_pages

ROOT = Path(__file__).resolve().parents[1]
CLAIMS = ROOT / "docs" / "claims"
README = ROOT / "README.md"
MARKS = Marks("<!-- The rows are written by scripts/claims_table.py. -->", "<!-- Here they end. -->")
SHOWN = ("evolution", "hybrid_modes", "search_diversity", "distinctiveness", "verifier_noise")
"""The studies of which the README has rows."""


def rows() -> str:
    """The README's table, with links that lead from there."""
    studies = [catalog.find(name) for name in SHOWN]
    found = [claim_pages.row(study, study.headline, read_json(claim_pages.result_path(study))) for study in studies]
    table = claim_pages.table(found)
    return table.replace("](", "](docs/claims/").replace("](docs/claims/https", "](https")


def parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError if there are extensions, whose studies are none of these pages."""
    if extensions.loaded():
        raise ValueError(f"the pages are those of ipsrl alone: unset {extensions.VARIABLE}")


if __name__ == "__main__":
    arguments = parser().parse_args()
    with Ending():
        check(arguments)
        written = claim_pages.write(CLAIMS, catalog.every().values())
        replace_file(README, MARKS.filled(README.read_text(), rows()))
        print(f"wrote {len(written)} pages in {CLAIMS.relative_to(ROOT)}, and {len(SHOWN)} rows in {README.name}")
