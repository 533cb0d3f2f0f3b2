"""Objectives, environments and studies of your own, without a fork of this repository.

A module that Python can import has one or more of these, each a plain dict from a name to its object:

    OBJECTIVES = {"mine": mine}              a function of keyword arguments that returns an `Objective`
    ENVIRONMENTS = {"my_task": MyTask}       a class or function of keyword arguments that returns an environment
    STUDIES = {"my_study": my_study}         a module as described in `ipsrl.study.study`

Every experiment, sweep and script loads it by `--extensions=my_module` (several separated by commas), Python by
`load("my_module")`; then the names work wherever names are accepted.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Mapping, MutableMapping
from types import ModuleType
from typing import Any

from ipsrl.checking.arguments import checked, shown
from ipsrl.checking.foreign_code import in_a_sentence, message, require_factory, require_name, sentences

FLAG_HELP = "modules with OBJECTIVES, ENVIRONMENTS or STUDIES of your own, separated by commas; see docs/extending.md"
VARIABLE = "IPSRL_EXTENSIONS"
"""Child processes load the same modules."""
NAMED = "give the name of a module, not a path, and put its folder on PYTHONPATH"
STUDIES: dict[str, ModuleType] = {}
"""The loaded studies by name."""


@checked
def load(modules: str = "") -> None:
    """Imports modules, named between commas, and adds their entries to the catalogs; also those of $IPSRL_EXTENSIONS.

    A module is found on Python's path or in the working directory.

    Raises:
      ValueError: a module cannot be imported or has none of the three dicts, an entry is none, or a name is already
        taken. Then none of the modules is entered.
    """
    names = list(dict.fromkeys(name for name in f"{loaded()},{modules}".replace(" ", "").split(",") if name))
    with contextlib.ExitStack() as undone:
        for name in names:
            _enter(name, undone)
        undone.pop_all()
    if names:
        os.environ[VARIABLE] = ",".join(names)


def loaded() -> str:
    """Names of the loaded modules, separated by commas."""
    return os.environ.get(VARIABLE, "")


def _enter(name: str, undone: contextlib.ExitStack) -> None:
    """Adds what a module has to the catalogs, and its removal to what is undone if this or a later module is bad."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"the extension {name!r} cannot be imported: {NAMED}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    # Whatever a module raises, also if it ends the program.
    except BaseException as error:
        said = in_a_sentence(name, error)
        if isinstance(error, ImportError) and ", line" not in said:
            said = f"the extension {name!r} cannot be imported: {message(error)}; {NAMED}"
        raise ValueError(said) from error
    found = {kind: vars(module)[kind] for kind in ("OBJECTIVES", "ENVIRONMENTS", "STUDIES") if kind in vars(module)}
    if not found:
        raise ValueError(f"the extension {name!r} has neither OBJECTIVES nor ENVIRONMENTS nor STUDIES: give it one")
    with sentences(name):
        for kind, entries in found.items():
            _enter_kind(name, kind, entries, undone)


def _enter_kind(name: str, kind: str, entries: Any, undone: contextlib.ExitStack) -> None:
    if not isinstance(entries, Mapping):
        raise ValueError(f"{kind} of the extension {name!r} must be a dict from names to objects")
    catalog = _catalog(kind)
    for entry, value in entries.items():
        try:
            require_name(entry)
            if kind == "STUDIES":
                _require_study(value)
            else:
                require_factory(value)
        except ValueError as error:
            raise ValueError(f"the extension {name!r} has {entry!r} in {kind}: {error}") from error
        if entry not in catalog:
            undone.callback(catalog.pop, entry)
        if catalog.setdefault(entry, value) is not value:
            raise ValueError(f"the extension {name!r} has {entry!r} in {kind}, but that name is taken: choose another")


def _require_study(value: Any) -> None:
    """Raises ValueError unless a value looks like the module of a study, whose content `Study.of` checks."""
    if not all(hasattr(value, name) for name in ("__name__", "PRESETS", "curves")):
        raise ValueError(f"{shown(value)} must be a module with PRESETS and curves")


def _catalog(kind: str) -> MutableMapping[str, Any]:
    if kind == "STUDIES":
        return STUDIES
    # Imported here: extensions with only studies need not import environments.
    if kind == "OBJECTIVES":
        from ipsrl.objectives.catalog import CATALOG
    else:
        from ipsrl.environments.catalog import CATALOG
    return CATALOG
