"""Weights of Hugging Face checkpoints: import, in which each device reads its own slices, and export.

One table, `stored_tensors`, maps parameters to tensors of a file; import and export both read it. Parameters are named
as in the files, so the table has one rule for each kind of leaf. A matrix is `[out, in]` on disk, a kernel `[in, out]`.
"""

import contextlib
import dataclasses
import functools
import json
import math
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Sharding
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ipsrl.checking.model_folder import read_object
from ipsrl.distributed import hosts
from ipsrl.distributed.placement import leaf_name
from ipsrl.policies.adapters import LoRA, merged
from ipsrl.policies.hugging_face.configuration import read_json, read_policy, text_config
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer

# The last part of a parameter's path -> the last part of a tensor's name, and whether it is stored transposed.
LEAVES = {
    "embedding": ("weight", False),
    "kernel": ("weight", True),
    "bias": ("bias", False),
    "scale": ("weight", False),
}
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
FLOATS = ("F32", "BF16", "F16", "F64")
# Files beside the weights that belong to the tokenizer or to generation.
COPIED = (
    "generation_config.json",
    "tokenizer*",
    "vocab.*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
)
# Fields of a policy that change how it computes, not its architecture.
COMPUTING = ("dtype", "query_block", "logits_at_once", "remat")
# Tensors outside the text decoder: positions stored in old Llama files, and vision parts.
SKIPPED = re.compile(r"(.*\.)?rotary_emb\.inv_freq|(model\.)?(vision_tower|multi_modal_projector)\..*")
# Multi-modal files have the text decoder under other names: the older files first, then the newer. A model that was
# saved without its head has no name around its parts.
RENAMED = (
    (re.compile(r"language_model\.(lm_head|model)\."), r"\1."),
    (re.compile(r"model\.language_model\."), "model."),
    (re.compile(r"(language_model\.)?(?=(embed_tokens|layers|norm)\.)"), "model."),
)


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """One parameter and its tensor.

    Attributes:
      path: of the parameter, such as "layers/0/self_attn/q_proj/kernel".
      name: of the tensor, such as "model.layers.0.self_attn.q_proj.weight".
      shape: of the tensor; the parameter's shape reversed if `transposed`.
      transposed: whether the tensor is the transpose of the parameter.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    transposed: bool


def stored_tensors(policy: Transformer) -> dict[str, StoredTensor]:
    """Path of every parameter -> its tensor, in the order of the parameters."""
    table = {}
    for path, shape in _shapes(_abstract(policy)).items():
        *parts, leaf = path.split("/")
        name, transposed = LEAVES[leaf]
        prefix = [] if parts == ["lm_head"] else ["model"]
        table[path] = StoredTensor(
            path, ".".join([*prefix, *parts, name]), shape[::-1] if transposed else shape, transposed
        )
    return table


def load_parameters(
    model_dir: str | Path,
    policy: Transformer,
    shardings: Mapping[str, Sharding] | None = None,
    dtype: str = "float32",
    convert: Callable[[str, jax.Array], Any] = lambda path, leaf: leaf,
) -> Parameters:
    """The weights of a checkpoint as the parameters of `policy`.

    All errors but weights that are not finite are found before weights are read. Then every process reads only the
    slices of its own devices, one after the other: no tensor is ever whole on the host unless its sharding requires it.

    Args:
      model_dir: folder with `config.json` and `model.safetensors`, or else an index and the files that it names.
      policy: `read_policy(model_dir)`, or a policy that differs from it only in how it computes.
      shardings: path of a parameter, as in `StoredTensor`, -> its sharding; None for this process's first device.
      dtype: of the parameters, independent of the files.
      convert: (path, parameter) -> its replacement, for example a quantised one, before the next parameter is read.

    Raises:
      ValueError: `policy` has another architecture; the folder has no safetensors files, or lacks one; a tensor is
        missing, is not a parameter, has another shape, or is not floating point and finite; or `lm_head.weight` differs
        from the token embeddings it is tied to.
    """
    folder = Path(model_dir)
    _check_architecture(folder, policy)
    first_device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    table = stored_tensors(policy)
    with contextlib.ExitStack() as stack:
        slices = _open(folder, stack)
        _check_tensors(folder, policy, table, slices)

        def read(path: Any, parameter: jax.ShapeDtypeStruct) -> jax.Array:
            tensor = table[leaf_name(path)]
            sharding = first_device if shardings is None else shardings[tensor.path]
            leaf = _read(folder, tensor, slices[tensor.name], parameter.shape, sharding, np.dtype(dtype))
            return convert(tensor.path, leaf)

        return jax.tree.map_with_path(read, _abstract(policy))


def save(
    model_dir: str | Path,
    policy: Transformer,
    parameters: Parameters,
    source_dir: str | Path,
    dtype: str | None = None,
    shard_bytes: int = 5 * 10**9,
) -> None:
    """Writes a folder that `transformers` loads: weights, configuration, tokenizer.

    Of a multi-modal source only the text decoder is exported (`Gemma3ForCausalLM`). Adapters are merged into their
    matrices, one after the other. Parameters may be sharded over many processes: all call this function, process 0
    writes. The host never holds more than one file's weights. The folder appears only when it is complete.

    Args:
      model_dir: the new folder.
      policy, parameters: to export.
      source_dir: a checkpoint of the same architecture, weights or not; its `config.json` and tokenizer are copied.
      dtype: of the weights in the files; None for the dtype in the source's `config.json`, else float32.
      shard_bytes: maximum size of a file with more than one tensor.

    Raises:
      ValueError: `model_dir` exists, the source has another architecture, or `parameters` are others or not finite.
    """
    target, source = Path(model_dir).absolute(), Path(source_dir)
    if hosts.broadcast(target.exists()):
        raise ValueError(f"{target} exists already: choose a new folder for the export.")
    plain = dataclasses.replace(policy, lora=None)
    _check_architecture(source, plain)
    table = stored_tensors(plain)
    _check_parameters(table, parameters, policy.lora)
    content = read_json(source)
    dtype = dtype or content.get("dtype") or content.get("torch_dtype") or "float32"
    modules = {leaf_name(path): module for path, module in jax.tree.leaves_with_path(parameters, is_leaf=_is_module)}
    with contextlib.ExitStack() as stack:
        partial = None
        if jax.process_index() == 0:
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished = stack.enter_context(tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent))
            # A subfolder, because other users cannot access the temporary folder itself.
            partial = Path(unfinished) / target.name
            partial.mkdir()
            (partial / "config.json").write_text(json.dumps(text_config(source, dtype), indent=2) + "\n")
        # Every process takes part in gathering what no single process holds.
        write_tensors(partial, table, dtype, shard_bytes, functools.partial(_on_host, modules, policy.lora, dtype))
        if partial is not None:
            for path in sorted({path for pattern in COPIED for path in source.glob(pattern)}):
                if path.is_file():
                    shutil.copy2(path, partial)
            partial.rename(target)
    multihost_utils.sync_global_devices(f"export to {target}")


def write_tensors(
    folder: Path | None,
    table: Mapping[str, StoredTensor],
    dtype: str,
    shard_bytes: int,
    value: Callable[[StoredTensor], np.ndarray],
) -> None:
    """Writes `model.safetensors`, or several files and their index, beside a `config.json`, one file at a time.

    `value` gives a tensor of the table in C order: safetensors writes the memory buffer and ignores strides. Without a
    folder nothing is written, but every value is asked for.
    """
    # Imported late, as it is part of transformers.
    from huggingface_hub import split_state_dict_into_shards_factory

    tensors = {tensor.name: tensor for tensor in table.values()}
    split = split_state_dict_into_shards_factory(
        tensors,
        get_storage_size=lambda tensor: math.prod(tensor.shape) * jnp.dtype(dtype).itemsize,
        filename_pattern="model{suffix}.safetensors",
        max_shard_size=shard_bytes,
    )
    for file, names in split.filename_to_tensors.items():
        values = {name: value(tensors[name]) for name in names}
        if folder is not None:
            save_file(values, folder / file, metadata={"format": "pt"})
            # safetensors makes its files unreadable for other users.
            shutil.copymode(folder / "config.json", folder / file)
    if folder is not None and split.is_sharded:
        index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n")


@functools.cache
def _abstract(policy: Transformer) -> Parameters:
    """Shapes and dtypes of the parameters."""
    return jax.eval_shape(policy.init, jax.random.key(0))


def _shapes(tree: Parameters) -> dict[str, tuple[int, ...]]:
    return {leaf_name(path): leaf.shape for path, leaf in jax.tree.leaves_with_path(tree)}


def _check_architecture(folder: Path, policy: Transformer) -> None:
    """Raises if a policy has another architecture than `folder`; how it computes may differ."""
    computing = {name: getattr(policy, name) for name in COMPUTING}
    stored = dataclasses.replace(read_policy(folder), **computing)
    for field in dataclasses.fields(policy):
        ours, theirs = getattr(policy, field.name), getattr(stored, field.name)
        if ours != theirs:
            raise ValueError(
                f"The policy has {field.name} {ours!r}, but {folder}/config.json says {theirs!r}: make the policy by "
                "read_policy."
            )


def _check_parameters(table: dict[str, StoredTensor], parameters: Parameters, lora: LoRA | None) -> None:
    shapes = _shapes(jax.eval_shape(functools.partial(merged, lora=lora), parameters) if lora else parameters)
    for path in [*table, *shapes]:
        if path not in shapes:
            raise ValueError(f"The parameters to export have no {path!r}.")
        if path not in table:
            raise ValueError(f"The parameters to export have {path!r}, which does not belong to a checkpoint.")
        tensor = table[path]
        expected = tensor.shape[::-1] if tensor.transposed else tensor.shape
        if shapes[path] != expected:
            raise ValueError(f"The parameter {path!r} to export is {shapes[path]}, but must be {expected}.")


def _open(folder: Path, stack: contextlib.ExitStack) -> dict[str, Any]:
    """Name of each tensor of the text decoder -> its safetensors slice, without reading any."""
    weight_map = _read_index(folder) if (folder / INDEX).is_file() else None
    if (folder / WEIGHTS).is_file():
        # As transformers, for which an index beside it is left over.
        files, weight_map = [WEIGHTS], None
    elif weight_map is not None:
        files = sorted(set(weight_map.values()))
    else:
        raise ValueError(
            f"{folder} has neither {WEIGHTS} nor {INDEX}: convert its weights to safetensors, for instance by "
            "transformers' save_pretrained."
        )
    slices, present = {}, {path.name for path in folder.iterdir() if path.is_file()}
    for file in files:
        # A name may be no possible one, for which `is_file` raises.
        if file not in present:
            raise ValueError(f"{folder / file} is not a file, but {INDEX} names it: copy it to this folder.")
        try:
            opened = stack.enter_context(safe_open(folder / file, framework="np"))
        except SafetensorError as error:
            raise ValueError(
                f"{folder / file} is no complete safetensors file ({error}): copy or download it again."
            ) from error
        for name in opened.offset_keys():
            if weight_map is not None and weight_map.get(name) != file:
                raise ValueError(f"{folder / file} has the tensor {name!r}, which {INDEX} does not place there.")
            if SKIPPED.fullmatch(name):
                continue
            shown = name
            for pattern, replacement in RENAMED:
                shown = pattern.sub(replacement, shown, count=1) if pattern.match(shown) else shown
            if shown in slices:
                raise ValueError(f"{folder} has the tensor {shown!r} under two names: remove one of them.")
            slices[shown] = opened.get_slice(name)
    return slices


def _read_index(folder: Path) -> dict[str, str]:
    """Name of each tensor -> the file that holds it, which must lie in the folder."""
    weight_map = read_object(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        raise ValueError(f"{folder / INDEX} names no file for each tensor in a 'weight_map': copy it again.")
    for file in weight_map.values():
        # Half a character is part of no name.
        if Path(file).name != file or not file.isprintable():
            raise ValueError(f"{folder / INDEX} names the file {file!r}, but all files must lie in this folder.")
    return weight_map


def _check_tensors(folder: Path, policy: Transformer, table: dict[str, StoredTensor], slices: dict[str, Any]) -> None:
    """Raises unless the tensors of the files are the parameters of `policy`, each exactly once."""
    expected = {tensor.name: tensor.shape for tensor in table.values()}
    extra = set(slices) - set(expected)
    if policy.tie_embeddings:
        extra -= {"lm_head.weight"}
    for verb, names in (("lacks", set(expected) - set(slices)), ("has", extra)):
        if names:
            others = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ValueError(
                f"{folder} {verb} the tensor {min(names)!r}{others}, which its config.json "
                f"{'asks for' if verb == 'lacks' else 'has no place for'}: the weights and the configuration must be "
                "those of one model."
            )
    for name, shape in expected.items():
        if tuple(slices[name].get_shape()) != shape:
            raise ValueError(
                f"The tensor {name!r} of {folder} is {tuple(slices[name].get_shape())}, but its config.json says "
                f"{shape}: the weights and the configuration must be those of one model."
            )
        if slices[name].get_dtype() not in FLOATS:
            raise ValueError(
                f"The tensor {name!r} of {folder} is stored as {slices[name].get_dtype()}, but only "
                f"{', '.join(FLOATS)} can be trained: choose a checkpoint that is not quantised."
            )
    if policy.tie_embeddings and "lm_head.weight" in slices:
        _check_tied(folder, slices["model.embed_tokens.weight"], slices["lm_head.weight"])


def _check_tied(folder: Path, embeddings: Any, head: Any) -> None:
    rows, columns = embeddings.get_shape()
    step = max(1, 2**24 // columns)
    same = head.get_shape() == [rows, columns] and all(
        # safetensors refuses a slice beyond the end.
        np.array_equal(embeddings[row : min(row + step, rows)], head[row : min(row + step, rows)])
        for row in range(0, rows, step)
    )
    if not same:
        raise ValueError(
            f"lm_head.weight of {folder} differs from model.embed_tokens.weight, but its config.json ties them: set "
            "tie_word_embeddings to false there."
        )


def _read(
    folder: Path, stored: StoredTensor, values: Any, shape: tuple[int, ...], sharding: Sharding, dtype: np.dtype
) -> jax.Array:
    """A parameter of which each device gets its own slice; a slice for several devices of a process is read once."""
    read_before: dict[tuple[tuple[int | None, int | None], ...], np.ndarray] = {}

    def read(index: tuple[slice, ...] | None) -> np.ndarray:
        assert index is not None, "a device of this process has a part"
        key = tuple((part.start, part.stop) for part in index)
        if key not in read_before:
            part = values[index[::-1]].T if stored.transposed else values[index]
            with np.errstate(over="ignore", invalid="ignore"):
                read_before[key] = part.astype(dtype)
            if not np.isfinite(read_before[key]).all():
                raise ValueError(
                    f"the tensor {stored.name!r} of {folder} is not finite as {dtype}: choose another checkpoint."
                )
        return read_before[key]

    return jax.make_array_from_callback(shape, sharding, read, dtype=dtype)


def _is_module(node: Any) -> bool:
    """Whether the parameters of one matrix, norm or embedding are here: the level at which adapters are merged."""
    return isinstance(node, dict) and not any(isinstance(value, dict) for value in node.values())


def _on_host(modules: dict[str, Parameters], lora: LoRA | None, dtype: str, tensor: StoredTensor) -> np.ndarray:
    """A parameter in its stored form."""
    path, _, name = tensor.path.rpartition("/")
    leaf = modules[path][name] if lora is None else _merged(modules[path], lora)[name]
    values = hosts.to_host(leaf).astype(jnp.dtype(dtype))
    if not np.isfinite(np.float32(values)).all():
        raise ValueError(f"the tensor {tensor.name!r} is not finite: a model like that is not exported")
    return np.ascontiguousarray(values.T if tensor.transposed else values)


_merged = jax.jit(merged, static_argnames="lora")
