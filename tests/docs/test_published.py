"""No published number, page or figure is of other settings, objectives or defaults than those of today."""

import copy
import re
from pathlib import Path

import pytest

from ipsrl.objectives import catalog as objectives
from ipsrl.records.json_files import read_json, write_json
from ipsrl.study import catalog
from ipsrl.study.pages import claim_pages, published
from ipsrl.study.settings import resolve

DOCS = Path(__file__).parents[2] / "docs"
DRAWN = catalog.drawn()
RESULTS = {
    name: read_json(claim_pages.result_path(study))["made_of"]
    for name, (study, _) in DRAWN.items()
    if claim_pages.has_page(study, name) and claim_pages.result_path(study).exists()
}
NOTES = read_json(DOCS / published.FILE) | {"claims": RESULTS}
FLAGS = {"figures.md": "--document", "claims": "--claims"}


def now(page, name):
    """Study and inputs of an entry, at the published preset."""
    if page not in FLAGS:
        return catalog.find(name), published.inputs(catalog.find(name), resolve(catalog.find(name).presets, "demo", {}))
    study, variant = DRAWN[name]
    return study, published.inputs(study, resolve(study.presets, "demo", variant.flags.get("demo", {})))


@pytest.mark.parametrize("page", NOTES)
def test_what_is_published_is_made_of_what_there_is_today(page):
    stale = []
    for name, noted in NOTES[page].items():
        study, today = now(page, name)
        command = f"{study.command()} --document=docs/{page}"
        if page in FLAGS:
            command = f"python scripts/reproduce_figures.py --preset=demo --only={name} {FLAGS[page]}=docs/{page}"
        changed = published.changes(noted, today)
        if changed:
            stale.append(f"{name}: {'; '.join(changed)}; run {command}")
    assert not stale, "\n".join(stale)


def test_everything_that_is_published_is_noted():
    figures = (DOCS / "figures.md").read_text()
    rows = {line.removeprefix("| ").partition(" | ")[0] for line in figures.splitlines() if "`python -m" in line}
    shown = {name for name, (_, variant) in DRAWN.items() if variant.shows in rows}
    assert set(NOTES["figures.md"]) == shown
    noted = {name for names in NOTES.values() for name in names}
    assert {file.stem for file in DOCS.glob("*.png")} <= noted
    pages = {
        page.name for page in DOCS.glob("*.md") if re.search(r"written by (scripts/reproduce|exp)", page.read_text())
    }
    assert pages <= set(NOTES)


def test_what_changes_numbers_is_a_change_and_what_does_not_is_none(monkeypatch):
    _, before = now("figures.md", "comparison_bandit")
    assert published.changes(before, before) == []
    after = copy.deepcopy(before)
    after["settings"] |= {"skew": "2.0", "a_new_flag": "1"}
    del after["objectives"]["dapo"]
    after["objectives"]["newer"] = {}
    after["objectives"]["grpo"] |= {"kl": "0.1", "a_new_argument": "3"}
    assert published.changes(before, after) == [
        "skew is 2.0, not 1.0",
        "the objective newer has come",
        "the objective dapo is gone",
        "grpo: kl is 0.1, not 0.0",
    ]
    # A row is an input of all that name it, and of those that take all.
    monkeypatch.setitem(objectives.CATALOG, "grpo", lambda clip=0.3, kl=0.0: None)
    assert published.changes(before, now("figures.md", "comparison_bandit")[1]) == ["grpo: clip is 0.3, not 0.2"]
    assert "grpo" in now("claims", "dapo_steps")[1]["objectives"]


def test_a_command_notes_what_it_writes(tmp_path):
    study = catalog.find("verdicts")
    page, settings = (
        tmp_path / "verdicts.md",
        resolve(study.presets, "demo", {"document": str(tmp_path / "verdicts.md")}),
    )
    published.note(page, "verdicts", study, settings)
    assert not list(tmp_path.iterdir())
    old = {"verdicts": published.inputs(study, settings)}
    assert "document" not in old["verdicts"]["settings"]
    for row in ("grpo", "dapo"):
        old["verdicts"]["objectives"][row] = {"clip": "0.9"}
    write_json(tmp_path / published.FILE, {"verdicts.md": old})
    only = resolve(study.presets, "demo", {"document": str(page), "only": "grpo"})
    published.note(page, "verdicts", study, only)
    noted = read_json(tmp_path / published.FILE)["verdicts.md"]["verdicts"]
    assert published.changes(noted, published.inputs(study, settings)) == ["dapo: clip is (0.2, 0.28), not 0.9"]
    published.note(page, "verdicts", study, settings)
    noted = read_json(tmp_path / published.FILE)["verdicts.md"]["verdicts"]
    assert published.changes(noted, published.inputs(study, settings)) == []
