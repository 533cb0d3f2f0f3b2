"""The tensors of a GGUF file under the names, and in the layout, of Hugging Face."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

from ipsrl import extras
from ipsrl.policies.gguf.configuration import ROTARY_FACTORS
from ipsrl.policies.gguf.file import File
from ipsrl.policies.hugging_face.weights import StoredTensor, stored_tensors, write_tensors
from ipsrl.policies.transformer import Transformer


def stored_names(file: File, policy: Transformer) -> dict[str, str]:
    """Name of every tensor in a folder of `policy` -> its name in the file.

    Raises:
      ValueError: the tensors of the file are not those of the policy, each in its shape.
    """
    extras.require("gguf")
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    architecture = next(number for number, name in MODEL_ARCH_NAMES.items() if name == file.architecture)
    theirs = get_tensor_name_map(architecture, policy.num_layers)
    names = {}
    for tensor in stored_tensors(policy).values():
        stem, _, leaf = tensor.name.rpartition(".")
        names[tensor.name] = name = f"{theirs.get_name(stem)}.{leaf}"
        if name not in file.tensors:
            raise ValueError(f"{file.path} lacks the tensor {name!r}")
        if (shape := tuple(file.tensors[name].shape.tolist()[::-1])) != tensor.shape:
            raise ValueError(f"the tensor {name!r} of {file.path} is {shape}, but its metadata says {tensor.shape}")
    if unknown := set(file.tensors) - set(names.values()) - {ROTARY_FACTORS}:
        raise ValueError(f"{file.path} has the tensor {min(unknown)!r}, which {file.architecture} has no place for")
    return names


def values(file: File, name: str, policy: Transformer) -> np.ndarray:
    """A tensor of the file in the layout of Hugging Face, in float32.

    llama.cpp rotates neighbouring pairs in Llama, so its converter has interleaved the halves of each head of queries
    and keys; and it stores the scales of Gemma's norms, which count from 1, plus 1. Both are undone, up to rounding.
    """
    found = file.numbers(name)
    if file.architecture == "llama" and (".attn_q." in name or ".attn_k." in name):
        heads = policy.num_heads if ".attn_q." in name else policy.num_key_value_heads
        return found.reshape(heads, -1, 2, *found.shape[1:]).swapaxes(1, 2).reshape(found.shape)
    if policy.block == "gemma" and name.endswith("norm.weight"):
        return found - 1
    return found


def write_weights(folder: Path, file: File, policy: Transformer, dtype: str, shard_bytes: int = 5 * 10**9) -> None:
    """Writes the weights into a folder with a `config.json`, by `write_tensors`.

    Raises:
      ValueError: a tensor is not finite in `dtype`.
    """
    names = stored_names(file, policy)

    def value(tensor: StoredTensor) -> np.ndarray:
        name = names[tensor.name]
        with np.errstate(over="ignore"):
            found = np.ascontiguousarray(values(file, name, policy), jnp.dtype(dtype))
        if not np.isfinite(found).all():
            raise ValueError(f"the tensor {name!r} of {file.path} is not finite as {dtype}")
        return found

    write_tensors(folder, stored_tensors(policy), dtype, shard_bytes, value)
