"""The reader of the package `gguf`, for files of any content: it reads lists at once, and refuses sizes of no model."""

import struct
import sys
from typing import Any

import numpy as np

from ipsrl import extras

try:
    from gguf import GGUFReader, GGUFValueType
except ImportError:
    extras.require("gguf")
    raise

MOST_KEYS, MOST_TENSORS, MOST_TEXTS = 10_000, 100_000, 2_000_000
"""Far more than models have; so many are read within seconds."""
MOST_DIMENSIONS = 4


class Reader(GGUFReader):
    """Reads a file of any content in seconds, or raises; gguf's own reads each number of a list by itself, and beyond
    the end of a file it finds nothing, as often as a damaged length says.
    """

    def __init__(self, path: Any) -> None:
        self._texts = 0
        super().__init__(path)

    @property
    def data(self) -> np.ndarray:
        return self._bytes

    @data.setter
    def data(self, mapped: np.ndarray) -> None:
        # A slice of a `memmap` takes ten times as long.
        self._bytes = mapped.view(np.ndarray)

    def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> np.ndarray:
        if offset + np.dtype(dtype).itemsize * int(count) > len(self.data):
            raise ValueError("it ends too early")
        return super()._get(offset, dtype, count, override_order)

    def _build_fields(self, offs: int, count: int) -> int:
        _require("keys", count, MOST_KEYS)
        return super()._build_fields(offs, count)

    def _build_tensor_info(self, offs: int, count: int) -> Any:
        _require("tensors", count, MOST_TENSORS)
        end, fields = super()._build_tensor_info(offs, count)
        for field in fields:
            shape = field.parts[3]
            if not 1 <= len(shape) <= MOST_DIMENSIONS or not shape.all():
                raise ValueError(f"the tensor {field.name!r} has the shape {shape.tolist()[::-1]}")
        return end, fields

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[Any]]:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        kind = GGUFValueType(self._get(orig_offs, np.uint32)[0])
        length = int(self._get(orig_offs + 4, np.uint64)[0])
        if kind == GGUFValueType.STRING:
            end, texts = self._read_texts(orig_offs + 12, length)
            return end - orig_offs, texts, list(range(length)), [GGUFValueType.ARRAY, kind]
        if kind not in self.gguf_scalar_to_np:
            raise ValueError("it has a list of lists")
        numbers = self._get(orig_offs + 12, self.gguf_scalar_to_np[kind], length)
        return 12 + numbers.nbytes, [numbers], [0], [GGUFValueType.ARRAY, kind]

    def _read_texts(self, start: int, count: int) -> tuple[int, list[memoryview]]:
        """The end of a list of texts, and the texts."""
        self._texts += count
        _require("texts in lists", self._texts, MOST_TEXTS)
        is_little = (sys.byteorder == "little") == (self.byte_order == "I")
        length_at = struct.Struct("<Q" if is_little else ">Q").unpack_from
        content, whole, texts = self.data.data, len(self.data), []
        for _ in range(count):
            # A length that is cut is a length beyond the end.
            begin = start + 8
            start = begin + length_at(content, start)[0] if begin <= whole else whole + 1
            if start > whole:
                raise ValueError("it ends too early")
            texts.append(content[begin:start])
        return start, texts


def _require(what: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(f"it says that it has {count} {what}, more than {most}")
