"""All studies by name: the modules of the package `experiments` beside `ipsrl`, and those of extensions."""

import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path

import ipsrl
from ipsrl.checking.specifications import did_you_mean
from ipsrl.command import extensions
from ipsrl.study.study import Study, Variant

PACKAGE = "experiments"


def root() -> Path:
    """The folder in which to run `python -m experiments.NAME`: that of the package, or the working folder."""
    folder = _folder()
    return Path.cwd() if folder is None else Path(folder).parent


def _folder() -> str | None:
    """The package's folder: beside `ipsrl` in a checkout (it is not installed), or wherever Python finds it."""
    checkout = Path(ipsrl.__file__).parents[1]
    if (checkout / PACKAGE).is_dir() and str(checkout) not in sys.path:
        # Python puts the folder of a script on the path, not that of the checkout.
        sys.path.append(str(checkout))
    package = importlib.util.find_spec(PACKAGE)
    # A module of this name, such as somebody's experiments.py, is no package.
    folders = package.submodule_search_locations if package is not None else None
    return folders[0] if folders else None


def names() -> list[str]:
    """Names of all studies; nothing is imported."""
    folder = _folder()
    if folder is None:
        return [*extensions.STUDIES]
    modules = pkgutil.iter_modules([folder])
    # A package without a command is what several studies of one subject share.
    own = [module.name for module in modules if not module.ispkg or Path(folder, module.name, "__main__.py").is_file()]
    return [*(name for name in own if not name.startswith("_")), *extensions.STUDIES]


def module_name(name: str) -> str:
    """The module name for `python -m`."""
    return extensions.STUDIES[name].__name__ if name in extensions.STUDIES else f"{PACKAGE}.{name}"


def require(name: str) -> None:
    """Raises ValueError if there is no study of this name; nothing is imported."""
    if name not in names():
        raise ValueError(f"unknown experiment {name!r}; {did_you_mean(name, names())}")


def find(name: str) -> Study:
    """The study of this name.

    Raises:
      ValueError: there is none.
    """
    require(name)
    return Study.of(extensions.STUDIES.get(name) or importlib.import_module(module_name(name)), name)


def every() -> dict[str, Study]:
    """All studies by name; imports their modules, which takes seconds."""
    return {name: find(name) for name in names()}


def drawn() -> dict[str, tuple[Study, Variant]]:
    """All figures and tables by name, each with the study that makes it."""
    found: dict[str, tuple[Study, Variant]] = {}
    for study in every().values():
        for name, variant in study.variants.items():
            if name in found:
                raise ValueError(f"{study.name} and {found[name][0].name} both have the figure {name}: rename one")
            found[name] = (study, variant)
    return found


def listing() -> str:
    """All studies as text: claim, command and time of each."""
    blocks = []
    for study in every().values():
        claim = study.headline.claim if study.headline else study.header.get("Claim", "")
        blocks.append([study.name, claim, study.header.get("Command", study.command()), study.header.get("Time", "")])
    return "\n\n".join("\n  ".join(block) for block in blocks)
