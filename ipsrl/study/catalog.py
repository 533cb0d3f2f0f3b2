"""Every study by name: the modules of the package `experiments` beside this one, and those of extensions."""

import importlib
import importlib.util
import pkgutil
from types import ModuleType

from ipsrl.study.study import Study

PACKAGE = "experiments"
EXTENSIONS: dict[str, ModuleType] = {}
"""Studies that `ipsrl.extensions` has loaded."""


def names() -> list[str]:
    """Names of all modules that may be studies; nothing is imported."""
    package = importlib.util.find_spec(PACKAGE)
    own = [] if package is None else [m.name for m in pkgutil.iter_modules(package.submodule_search_locations)]
    return [*(name for name in own if not name.startswith("_")), *EXTENSIONS]


def find(name: str) -> Study:
    """The study of this name.

    Raises:
      ValueError: there is none.
    """
    if name in EXTENSIONS:
        return Study.of(EXTENSIONS[name], name)
    if name not in names():
        raise ValueError(f"unknown experiment {name!r}; known: {', '.join(names())}")
    return Study.of(importlib.import_module(f"{PACKAGE}.{name}"))


def every() -> dict[str, Study]:
    """All studies by name; imports their modules, which takes seconds."""
    found = {}
    for name in names():
        module = EXTENSIONS.get(name) or importlib.import_module(f"{PACKAGE}.{name}")
        # A module with PRESETS alone is a command that prepares something.
        if hasattr(module, "curves"):
            found[name] = Study.of(module, name)
    return found


def listing() -> str:
    """All studies as text: what each claims, its command, and how long it takes."""
    blocks = []
    for study in every().values():
        header = study.header
        lines = [study.name, f"  {header.get('Claim', '')}", f"  {study.command()}", f"  {header.get('Time', '')}"]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
