"""Inputs of published pages and figures, so that a test can tell which are stale.

`published.json`, beside the pages, has for each page and each study in it what the numbers depend on: the settings,
the catalog's objectives that the study names, each with its defaults, and the versions of packages without which
nothing of it runs. The commands that write pages keep it; texts of claims and headers stand in the pages themselves.
Code is not among it: a comment or another name for a variable would make every page stale.
"""

import ast
import dataclasses
import importlib.metadata
import inspect
import json
import re
from collections.abc import Collection, Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipsrl.objectives.catalog import CATALOG
from ipsrl.records.json_files import read_json, replace_file
from ipsrl.study.settings import Settings, as_text, kinds_of

if TYPE_CHECKING:
    from ipsrl.study.study import Study

FILE = "published.json"
PLACES = ("document", "only")
"""Settings that say where results go, or that a part of a page is written anew."""


def inputs(study: "Study", settings: Settings) -> dict[str, Any]:
    """The present inputs of the results of a study with these settings: `settings`, `objectives`, `packages`."""
    chosen = {
        field.name: as_text(settings, field.name) if field.name in kinds_of(type(settings)) else repr(value)
        for field in dataclasses.fields(settings)
        for value in [getattr(settings, field.name)]
        if field.name not in PLACES
    }
    named = (
        set(CATALOG) if "all" in chosen.get("objectives", "").split(",") else _rows([*chosen.values(), *_texts(study)])
    )
    arguments = {name: inspect.signature(CATALOG[name]).parameters for name in CATALOG if name in named}
    return {
        "settings": chosen,
        "objectives": {name: {key: str(each.default) for key, each in of.items()} for name, of in arguments.items()},
        "packages": {package: version for package in study.needs if (version := _version(package))},
    }


def _texts(study: "Study") -> list[str]:
    """The texts in a study's module, or in all modules of its folder, without the words of their docstrings."""
    module = Path(inspect.getfile(study.module))
    files = module.parent.glob("*.py") if module.name == "__init__.py" else [module]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    written = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in written]
    return [node.value for node in constants if isinstance(node.value, str)]


def _rows(texts: Collection[str]) -> set[str]:
    """The rows that texts name as specifications do: `grpo`, `ips_grpo(floor=0.2)`, several between commas."""
    return {name for text in texts for name in re.findall(r"(?:^|,)\s*(\w+)(?=$|,|\()", text) if name in CATALOG}


def _version(package: str) -> str:
    """Empty if it is not installed: where a package is missing, the others are compared."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def changes(stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The changes between two `inputs`, one sentence each.

    Settings and arguments that come and go are no change, because their defaults do what was done before; other
    values of those that both have are, and objectives that come or go.
    """

    def differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
        both = [name for name in before if name in after]
        return [f"{name} is {after[name]}, not {before[name]}" for name in both if before[name] != after[name]]

    before, after = stored["objectives"], now["objectives"]
    found = [each for part in ("settings", "packages") for each in differing(stored[part], now[part])]
    found += [f"the objective {name} has come" for name in after if name not in before]
    found += [f"the objective {name} is gone" for name in before if name not in after]
    return found + [f"{n}: {each}" for n in before for each in differing(before[n], after.get(n, {}))]


def note(page: Path, name: str, study: "Study", settings: Settings) -> None:
    """Keeps what a page's figure, row or section of this name was made of, if the folder of the page keeps such notes.

    Where `settings.only` says which objectives of a page were computed anew, only theirs are noted.
    """
    file = page.parent / FILE
    if not file.exists():
        return
    notes, now = read_json(file), inputs(study, settings)
    of_page = notes.setdefault(page.name, {})
    if only := getattr(settings, "only", ()):
        renewed = {row: now["objectives"][row] for row in _rows(only)}
        now["objectives"] = of_page.get(name, {"objectives": {}})["objectives"] | renewed
    of_page[name] = now
    _write(file, notes)


def keep(page: Path, names: Container[str]) -> None:
    """Drops the notes on what a page no longer shows: all but these names."""
    file = page.parent / FILE
    if file.exists():
        notes = read_json(file)
        notes[page.name] = {name: of for name, of in notes.get(page.name, {}).items() if name in names}
        _write(file, notes)


def _write(file: Path, notes: Mapping[str, Mapping[str, Any]]) -> None:
    """A line for each name: changes are easy to see."""
    pages = (
        f"{json.dumps(page)}: {{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(of)}" for name, of in sorted(names.items()))
        for page, names in sorted(notes.items())
    )
    replace_file(file, "{\n" + "\n},\n".join(pages) + "\n}\n}\n")
