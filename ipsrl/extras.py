"""Packages that an extra of setup.py installs, and `pip install .` alone does not.

`require` precedes every import of one, or stands in the `except ImportError` of a `try` around it: whoever lacks the
package reads one sentence. A command calls it before anything is computed or written.
"""

import dataclasses
import importlib.util
from importlib import metadata


@dataclasses.dataclass(frozen=True)
class OptionalPackage:
    """A package that is not always installed.

    Attributes:
      distribution: its name in the registry.
      extra: of setup.py, which installs it.
      purpose: what needs it, a clause that ends with its name.
      version: the beginning of the versions that are accepted; empty for all that the extra allows.
    """

    distribution: str
    extra: str
    purpose: str
    version: str = ""


PACKAGES = {
    "bm25s": OptionalPackage("bm25s", "tools", "texts are searched by bm25s"),
    "dash": OptionalPackage("dash", "tunnel", "the page of the wind tunnel is made by Dash"),
    "duckdb": OptionalPackage("duckdb", "analysis", "results are read by DuckDB"),
    "gguf": OptionalPackage("gguf", "gguf", "GGUF files are read by the package gguf"),
    "libtpu": OptionalPackage("libtpu", "tpu", "programs for TPUs are compiled by libtpu"),
    "math_verify": OptionalPackage(
        "math-verify", "math", "parser=math_verify reads answers by the package math-verify"
    ),
    "plotly": OptionalPackage("plotly", "analysis", "the curves of a report are drawn by Plotly"),
    "ray": OptionalPackage("ray", "ray", "the launcher ray needs Ray"),
    "rdkit": OptionalPackage("rdkit", "molecules", "molecules are read by RDKit"),
    # What its verifiers do with a model's words was read in this version.
    "reasoning_gym": OptionalPackage(
        "reasoning-gym", "reasoning_gym", "the questions of reasoning_gym are made by reasoning-gym", "0.1.25"
    ),
    "submitit": OptionalPackage("submitit", "slurm", "the launcher slurm needs submitit"),
    "tensorboardX": OptionalPackage("tensorboardX", "trackers", "--tracker=tensorboard needs tensorboardX"),
    "torch": OptionalPackage("torch", "trl", "the bridge to trainers in PyTorch needs torch"),
    # Of other people's trainers, methods are overridden: the versions that are tested.
    "trl": OptionalPackage("trl", "trl", "objectives inside TRL's trainer need trl", "1.16"),
    "tunix": OptionalPackage("google-tunix", "tunix", "objectives inside Tunix's learner need google-tunix", "0.1.7"),
    "verl": OptionalPackage("verl", "verl", "objectives inside verl's trainer need verl", "0.9"),
    "wandb": OptionalPackage("wandb", "trackers", "--tracker=wandb needs wandb"),
}
"""Module -> its package."""


def require(module: str) -> None:
    """Raises ValueError, which names the extra, unless a package is installed in a version that is accepted.

    The package is not imported.

    Args:
      module: of `PACKAGES`.
    """
    package = PACKAGES[module]
    command = f'pip install -e ".[{package.extra}]"'
    if importlib.util.find_spec(module) is None:
        raise ValueError(f"{package.purpose}, which is not installed: {command}")
    if package.version:
        installed = metadata.version(package.distribution)
        if not f"{installed}.".startswith(f"{package.version}."):
            raise ValueError(
                f"{package.distribution} {installed} is installed, but only {package.version} is tested: {command}"
            )
