"""Virtual environments for other people's libraries, whose requirements contradict each other and ours.

Each is made once, in the folder of caches, and used from then on; it goes when its requirements change.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ipsrl.distributed.start_up import cache_folder

REQUIREMENTS = {
    "trl": ("torch==2.13.0", "trl==1.16.0", "transformers==5.23.0"),
    "tunix": ("google-tunix==0.1.7", "flax==0.12.8", "jax==0.10.2", "jaxlib==0.10.2"),
    "gfnx": ("gfnx==0.0.1", "jax==0.7.1", "jaxlib==0.7.1", "optax==0.2.8"),
    "torchgfn": ("torch==2.13.0", "torchgfn==2.4.1"),
}
"""The newest that work together, of November 2026; JAX is ours, but with gfnx, whose NumPy no newer one takes."""

TORCH_WITHOUT_CUDA = "https://download.pytorch.org/whl/cpu"


def is_made(name: str) -> bool:
    """Whether the environment is there and has what it needs."""
    stamp = _folder(name) / "installed"
    return stamp.exists() and stamp.read_text() == _stamp(name)


def python(name: str) -> Path:
    """The interpreter of an environment, which is made where it is missing.

    Args:
      name: of `REQUIREMENTS`.

    Raises:
      ValueError: there is no such environment, or it cannot be installed.
    """
    if name not in REQUIREMENTS:
        raise ValueError(f"there is no environment {name!r}: there are {', '.join(REQUIREMENTS)}")
    folder = _folder(name)
    if not is_made(name):
        print(f"Installing {' '.join(REQUIREMENTS[name])} in {folder} (once)", file=sys.stderr)
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Whatever has this name is whole: it is made elsewhere first. An interpreter does not mind where it lies.
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
            # A tenth of the size; where that index is out of reach, any wheel does.
            from_index = ["--no-deps", "--retries=1", f"--index-url={TORCH_WITHOUT_CUDA}", requirement]
            subprocess.run([interpreter, *pip, *from_index], capture_output=True)
    # uv is faster, and not needed.
    uv = shutil.which("uv")
    if uv is None and subprocess.run([interpreter, *pip, "uv"], capture_output=True).returncode == 0:
        uv = interpreter.with_name("uv")
    installer = [interpreter, *pip] if uv is None else [uv, "pip", "install", "--quiet", f"--python={interpreter}"]
    _run(name, [*installer, *REQUIREMENTS[name]])


def _run(name: str, command: Sequence[str | Path]) -> None:
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        # The chain of causes, which ends with that of the network where there is none.
        words = " ".join((finished.stderr.strip() or finished.stdout.strip() or "no reason given").split())
        raise ValueError(f"{name} cannot be installed; is the network within reach? The installer says: {words[-500:]}")
