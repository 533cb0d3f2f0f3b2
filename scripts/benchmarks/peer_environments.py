"""Virtual environments for other libraries, whose requirements contradict each other and ours.

Each is made once, in the cache folder, and remade when its requirements change.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ipsrl.distributed.start_up import cache_folder

REQUIREMENTS = {
    "trl": ("torch==2.13.0", "trl==1.16.0", "transformers==5.23.0", "peft==0.21.2"),
    "verl": (
        "torch==2.13.0",
        "verl[verl-core]==0.9.1",
        "transformers==5.10.4",
        "jax==0.10.2",
        "jaxlib==0.10.2",
        "optax==0.2.8",
    ),
    # All but the first line is for ipsrl and its tests.
    "tunix": (
        "google-tunix==0.1.7",
        "flax==0.12.8",
        "jax==0.10.2",
        "jaxlib==0.10.2",
        "safetensors==0.7.0",
        "optax==0.2.8",
        "matplotlib==3.11.2",
        "pebble==5.2.3",
        "scipy==1.17.1",
        "importlib-resources==7.1.0",
        "pytest==9.2.0",
    ),
    "gfnx": ("gfnx==0.0.1", "jax==0.7.1", "jaxlib==0.7.1", "optax==0.2.8"),
    "torchgfn": ("torch==2.13.0", "torchgfn==2.4.1"),
}
"""The newest that work together, of November 2026; JAX is ours, except for gfnx, whose NumPy no newer JAX accepts."""

TORCH_WITHOUT_CUDA = "https://download.pytorch.org/whl/cpu"


def is_made(name: str) -> bool:
    """Whether the environment exists with its requirements."""
    stamp = _folder(name) / "installed"
    return stamp.exists() and stamp.read_text() == _stamp(name)


def python(name: str) -> Path:
    """The interpreter of an environment, which is made if it is missing.

    Args:
      name: of `REQUIREMENTS`.

    Raises:
      ValueError: there is no such environment, or it cannot be installed.
    """
    if name not in REQUIREMENTS:
        raise ValueError(f"unknown environment {name!r}; known: {', '.join(REQUIREMENTS)}")
    folder = _folder(name)
    if not is_made(name):
        print(f"Installing {' '.join(REQUIREMENTS[name])} in {folder} (once)", file=sys.stderr)
        folder.parent.mkdir(parents=True, exist_ok=True)
        # A folder with this name is complete, because it is made elsewhere and then renamed; an interpreter can be
        # moved.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{name}-") as unfinished:
            _install(name, Path(unfinished) / name)
            shutil.rmtree(folder, ignore_errors=True)
            (Path(unfinished) / name).rename(folder)
    return folder / "bin" / "python"


def _folder(name: str) -> Path:
    return cache_folder() / "peers" / name


def _stamp(name: str) -> str:
    return "\n".join((sys.version, *REQUIREMENTS[name]))


def _install(name: str, folder: Path) -> None:
    _run(name, [sys.executable, "-m", "venv", folder])
    _packages(name, folder / "bin" / "python")
    (folder / "installed").write_text(_stamp(name))


def _packages(name: str, interpreter: Path) -> None:
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for requirement in REQUIREMENTS[name]:
        if requirement.startswith("torch=="):
            # A tenth of the size; if that index cannot be reached, any wheel works.
            from_index = ["--no-deps", "--retries=1", f"--index-url={TORCH_WITHOUT_CUDA}", requirement]
            subprocess.run([interpreter, *pip, *from_index], capture_output=True)
    # uv is faster, but optional.
    uv = shutil.which("uv")
    if uv is None and subprocess.run([interpreter, *pip, "uv"], capture_output=True).returncode == 0:
        uv = interpreter.with_name("uv")
    installer = [interpreter, *pip] if uv is None else [uv, "pip", "install", "--quiet", f"--python={interpreter}"]
    _run(name, [*installer, *REQUIREMENTS[name]])


def _run(name: str, command: Sequence[str | Path]) -> None:
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        # The chain of causes, which ends with the network error if there is no network.
        words = " ".join((finished.stderr.strip() or finished.stdout.strip() or "no reason given").split())
        raise ValueError(f"{name} cannot be installed; is the network reachable? The installer says: {words[-500:]}")
