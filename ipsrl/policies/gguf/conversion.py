"""A GGUF file becomes a folder in the format of Hugging Face."""

import shutil
import tempfile
import textwrap
from pathlib import Path

from ipsrl.checking.paths import expanded, require_possible
from ipsrl.policies.gguf.configuration import configuration
from ipsrl.policies.gguf.file import File, read
from ipsrl.policies.gguf.tensors import stored_names, write_weights
from ipsrl.policies.gguf.tokenizer import read_tokenizer, require_read_as_written, special_tokens, stop_tokens
from ipsrl.policies.hugging_face.configuration import read_policy

DTYPES = ("float32", "bfloat16", "float16")


def import_gguf(path: str | Path, out: str | Path, dtype: str = "float32", licence: str | None = None) -> Path:
    """Writes the folder `out`, which `ipsrl.policies.hugging_face` and `transformers` load, and returns it.

    It has the configuration, the tokenizer with its chat template, the tokens that end an answer, the weights,
    dequantised, and a README with the licence that the file names. The folder appears only when it is complete.

    Args:
      path: a GGUF file of Llama, Qwen2, Qwen3, Gemma 2 or Gemma 3 (text).
      out: the new folder.
      dtype: of the weights, "float32", "bfloat16" or "float16".
      licence: the text of a licence, written to `out` as LICENSE.

    Raises:
      ValueError: `out` exists or cannot be a folder, or the file is damaged or has what such a folder cannot express.
        Then nothing is left behind.
    """
    target = expanded(out, "--out").absolute()
    require_possible(target)
    if target.exists():
        raise ValueError(f"{target} exists already: choose a new folder for the import")
    file = read(path)
    with tempfile.TemporaryDirectory() as checked:
        described = Path(checked) / target.name
        described.mkdir()
        _describe(described, file, dtype)
        if licence is not None:
            (described / "LICENSE").write_text(licence)
        policy = read_policy(described)
        # Refused before anything is written beside `out`.
        stored_names(file, policy)
        target.parent.mkdir(parents=True, exist_ok=True)
        # A subfolder, because other users cannot access the temporary folder itself.
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as unfinished:
            partial = shutil.copytree(described, Path(unfinished) / target.name)
            write_weights(partial, file, policy, dtype)
            partial.rename(target)
    return target


def _describe(folder: Path, file: File, dtype: str) -> None:
    """Writes all but the weights."""
    # Imported late: it takes a second.
    from transformers import AutoConfig, GenerationConfig

    content, tokens = configuration(file), len(file.texts("tokenizer.ggml.tokens"))
    # Before a tokenizer is made of them.
    if tokens > content["vocab_size"]:
        raise ValueError(f"{file.path} has {tokens} tokens, but only {content['vocab_size']} embeddings")
    tokenizer, numbers = read_tokenizer(file), special_tokens(file)
    ids = {f"{role}_token_id": numbers.get(role) for role in ("bos", "pad")}
    stops = stop_tokens(file)
    ids["eos_token_id"] = stops[0]
    try:
        AutoConfig.for_model(**content, **ids, dtype=dtype).save_pretrained(folder)
    # It checks what belongs together by errors of its own.
    except Exception as error:
        said = textwrap.shorten(str(error), 200)
        raise ValueError(
            f"{file.path} describes no {content['model_type']} model ({said}): download it again"
        ) from error
    GenerationConfig(**ids | {"eos_token_id": stops}).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    require_read_as_written(folder)
    name, licence = file.value("general.name", str, file.path.stem), file.value("general.license", str, "not stated")
    (folder / "README.md").write_text(
        f"# {name}\n\nMade from {file.path.name}, whose weights were dequantised. Licence, according to that file: "
        f"{licence}.\n"
    )
