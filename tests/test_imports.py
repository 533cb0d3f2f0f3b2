"""Modules that an import does not bring along: every command waits for its imports first."""

import ast
import graphlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import ipsrl
from tests.hangs import HANGS

ROOT = Path(__file__).parents[1]

# Module -> packages that it must leave for the moment in which they are used. Imported one after the other.
LATER = {
    "ipsrl": ("jax", "numpy"),
    "ipsrl.records.results": ("duckdb", "flax", "matplotlib", "optax", "orbax", "scipy"),
    "ipsrl.objectives": ("flax", "matplotlib", "optax", "orbax", "scipy", "tensorflow_datasets", "transformers"),
    "ipsrl.training.loop": ("flax", "matplotlib", "orbax", "scipy", "tensorflow_datasets", "transformers"),
    "ipsrl.dynamics.verdict": ("flax", "matplotlib", "orbax", "scipy.stats", "tensorflow_datasets", "transformers"),
    "ipsrl.tunnel.pictures": ("dash", "flask", "plotly"),
}
PROGRAM = f"""
import importlib, sys
for module, later in {LATER}.items():
    importlib.import_module(module)
    print(module, *set(later) & set(sys.modules))
"""


def test_what_is_not_needed_is_not_imported():
    finished = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=HANGS)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == list(LATER)


def test_one_version_everywhere():
    assert importlib.metadata.version("ipsrl") == ipsrl.__version__
    citation = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {ipsrl.__version__}" in citation
    assert f"## {ipsrl.__version__}" in (ROOT / "CHANGELOG.md").read_text().splitlines()


def test_no_room_imports_one_that_imports_it():
    """Rooms are the folders and modules of `ipsrl/`; also imports inside functions count."""
    package = Path(ipsrl.__file__).parent
    imports = {}
    for path in package.rglob("*.py"):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "ipsrl":
                names = [node.module] if "." in node.module else [f"ipsrl.{alias.name}" for alias in node.names]
                imports.setdefault(room, set()).update(name.split(".")[1] for name in names)
    graphlib.TopologicalSorter({room: others - {room} for room, others in imports.items()}).prepare()
