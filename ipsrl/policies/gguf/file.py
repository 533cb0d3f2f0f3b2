"""A GGUF file: its metadata, and its tensors as they are stored."""

import dataclasses
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from ipsrl import extras
from ipsrl.checking.arguments import shown

MAGIC = b"GGUF"
KINDS: dict[type, str] = {int: "a positive whole number", float: "a number", bool: "true or false", str: "a text"}


@dataclasses.dataclass(frozen=True)
class File:
    """The content of a GGUF file, from `read`.

    Attributes:
      path: of the file.
      metadata: key -> number, text, or list of these.
      tensors: name -> `gguf.gguf_reader.ReaderTensor`, mapped into memory and read when it is asked for.
    """

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, Any]

    @property
    def architecture(self) -> str:
        return self.value("general.architecture", str)

    def value(self, key: str, kind: type, *default: Any) -> Any:
        """A value of the metadata, or the default; a float in the fewest digits that are the same float32.

        Raises:
          ValueError: it is missing and has no default, or is not of this kind.
        """
        if default and key not in self.metadata:
            return default[0]
        found: Any = self.metadata.get(key)
        numbers = (int, float) if kind is float else kind
        if (
            not isinstance(found, numbers)
            or (kind is not bool and isinstance(found, bool))
            or (kind is int and found < 1)
        ):
            raise ValueError(f"{self.path} has {key} {shown(found)}, but must have {KINDS[kind]} there")
        return float(str(np.float32(found))) if kind is float else found

    def of_architecture(self, key: str, kind: type, *default: Any) -> Any:
        """`value` of the key after the name of the architecture."""
        return self.value(f"{self.architecture}.{key}", kind, *default)

    def texts(self, key: str) -> list[str]:
        """A list of texts of the metadata."""
        found = self.metadata.get(key)
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise ValueError(f"{self.path} has {key} {shown(found)}, but must have a list of texts there")
        return found

    def numbers(self, name: str) -> np.ndarray:
        """A tensor as float32, dequantised by the package `gguf`."""
        extras.require("gguf")
        from gguf.quants import dequantize

        return dequantize(self.tensors[name].data, self.tensors[name].tensor_type).astype(np.float32, copy=False)


def read(path: str | Path) -> File:
    """The metadata and the tensors of a file, none of which is read yet.

    Raises:
      ValueError: the package `gguf` is missing; or the file does not exist, is not a GGUF file for machines like this
        one, is cut or damaged, is one of several, or has tensors of a type that cannot be dequantised.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}: give a GGUF file")
    with path.open("rb") as opened:
        if opened.read(len(MAGIC)) != MAGIC:
            raise ValueError(f"{path} is not a GGUF file, which begins with the letters GGUF")
    extras.require("gguf")
    from ipsrl.policies.gguf.reader import Reader

    try:
        reader = Reader(path)
        metadata = {key: field.contents() for key, field in reader.fields.items()}
    # What is missing or damaged may lead it anywhere.
    except Exception as error:
        raise ValueError(
            f"{path} is cut or damaged ({type(error).__name__}: {textwrap.shorten(str(error), 200)}): download it again"
        ) from error
    file = File(path, metadata, {tensor.name: tensor for tensor in reader.tensors})
    if reader.byte_order == "S":
        raise ValueError(f"{path} is for machines with another order of bytes: take the file for this one")
    if file.value("split.count", int, 1) > 1:
        raise ValueError(f"{path} is one of several files of a model: merge them by llama.cpp's gguf-split --merge")
    _require_known_types(file)
    return file


def _require_known_types(file: File) -> None:
    extras.require("gguf")
    from gguf.quants import dequantize

    for kind in {tensor.tensor_type: tensor for tensor in file.tensors.values()}.values():
        try:
            dequantize(kind.data[:1], kind.tensor_type)
        except NotImplementedError:
            raise ValueError(
                f"the tensor {kind.name!r} of {file.path} is stored as {kind.tensor_type.name}, "
                "which the package gguf cannot dequantise: take another file of this model"
            ) from None
