"""The tokenizer in a folder in the format of Hugging Face, the tokens that end its texts, and texts as its tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ipsrl.checking.foreign_code import said
from ipsrl.checking.model_folder import read_object, require_files

Token = tuple[int, tuple[int, int]]
"""The number of a token, and where in the text it begins and ends."""


def read_tokenizer(folder: Path) -> Any:
    """The fast tokenizer of `transformers`.

    Raises:
      ValueError: there is no such folder, or its files cannot be read, or give another kind of tokenizer.
    """
    require_files(folder)
    # Imported late: it takes a second, and no other environment needs it.
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        # Some settings are looked at only where they are used.
        if tokenizer.is_fast:
            tokenizer.batch_decode(tokenizer(["a text"])["input_ids"])
    # A damaged file may lead it anywhere, and the errors of its Rust are plain exceptions.
    except Exception as error:
        raise ValueError(
            f"the tokenizer files in {folder} cannot be read by transformers ({said(error)}): copy them again"
        ) from error
    if not tokenizer.is_fast:
        raise ValueError(f"the tokenizer in {folder} has no tokenizer.json, which defines its tokens")
    return tokenizer


def read_stop_tokens(tokenizer: Any, folder: Path) -> tuple[int, ...]:
    """The tokens that end an answer, of the tokenizer and of the folder's generation_config.json, in their order.

    Raises:
      ValueError: there are none, or that file names something else.
    """
    stops = {tokenizer.eos_token_id}
    if (path := folder / "generation_config.json").exists():
        ends = read_object(path).get("eos_token_id")
        ends = ends if isinstance(ends, list) else [ends]
        if not all(end is None or (type(end) is int and end >= 0) for end in ends):
            raise ValueError(f"{path} says that {ends} end an answer, but eos_token_id must be numbers of tokens")
        stops |= set(ends)
    if not (stops := stops - {None}):
        raise ValueError(f"neither the tokenizer nor a generation_config.json in {folder} names an eos token")
    return tuple(sorted(stops))


def prompt_tokens(tokenizer: Any, texts: Sequence[str], begins: bool) -> list[list[Token]]:
    """The tokens of texts that go on: nothing that a tokenizer adds behind them, as the end of a text.

    Args:
      begins: whether what a tokenizer adds before texts is kept, as the beginning of a text.
    """
    encoded = tokenizer(
        list(texts), add_special_tokens=begins, return_offsets_mapping=True, return_special_tokens_mask=True
    )
    rows = []
    for row in zip(encoded["input_ids"], encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True):
        tokens, places, added = row
        end = next((end for end in range(len(tokens), 0, -1) if not added[end - 1]), 0)
        rows.append(list(zip(tokens[:end], places[:end], strict=True)))
    return rows
