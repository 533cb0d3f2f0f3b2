"""Tokenizers that a GGUF file describes by a word or by scores, against tokens found by hand."""

import pytest

from ipsrl.policies.gguf.file import File
from ipsrl.policies.gguf.tokenizer import read_tokenizer, stop_tokens

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
BYTES = "".join(map(chr, [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)]))


def file_of(words, architecture="llama", **further):
    """`words` is a list of (token, kind) or (token, kind, score)."""
    tokens, kinds, *scores = map(list, zip(*words, strict=True))
    return File(
        "x.gguf",
        {
            "general.architecture": architecture,
            f"{architecture}.context_length": 64,
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": kinds,
            **({"tokenizer.ggml.scores": scores[0]} if scores else {}),
            **{f"tokenizer.ggml.{key}": value for key, value in further.items()},
        },
        {},
    )


def byte_level(pre, *words, **further):
    """A tokenizer with merges for `words`, from left to right, and a token `whole` that no merges lead to."""
    merges, tokens = {}, ["<a>", "<z>", *BYTES]
    for word in words:
        for end in range(1, len(word)):
            merges[f"{word[:end]} {word[end]}"] = tokens.append(word[: end + 1])
    made = [(token, CONTROL if token in ("<a>", "<z>") else NORMAL) for token in dict.fromkeys([*tokens, "whole"])]
    ids = {"model": "gpt2", "pre": pre, "merges": list(merges), "bos_token_id": 0, "eos_token_id": 1}
    return read_tokenizer(file_of([*made, ("[PAD9]", UNUSED)], **ids | further))


def pieces(tokenizer, text):
    found = tokenizer(text)["input_ids"]
    assert tokenizer.decode(found, skip_special_tokens=True) == text
    return tokenizer.convert_ids_to_tokens(found)


@pytest.mark.parametrize(
    ("pre", "text", "expected"),
    [
        ("gpt-2", "  12 ab", ["Ġ", "Ġ12", "Ġab"]),
        ("smollm", "  12 ab", ["ĠĠ", "1", "2", "Ġab"]),
        ("llama-bpe", "  12 ab", ["<a>", "Ġ", "Ġ", "12", "Ġab"]),
        ("qwen2", "  12 ab", ["Ġ", "Ġ", "1", "2", "Ġab"]),
        ("qwen2", "whole", [*"whole"]),
        ("llama-bpe", "whole", ["<a>", "whole"]),
        ("gpt-2", "ab<z>ab", ["ab", "<z>", "ab"]),
    ],
)
def test_how_text_is_split(pre, text, expected):
    assert pieces_of(byte_level(pre, "Ġ12", "Ġab", "ĠĠ", "12", "ab"), text) == expected


def pieces_of(tokenizer, text):
    return tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])


def test_text_is_composed_for_qwen_alone():
    decomposed = "e\u0301"
    assert pieces_of(byte_level("qwen2"), decomposed) == ["Ã", "©"]
    assert pieces_of(byte_level("gpt-2"), decomposed) == ["e", "Ì", "ģ"]


def test_tokens_that_fill_the_vocabulary_are_none():
    tokenizer = byte_level("gpt-2")
    assert "[PAD9]" not in tokenizer.get_vocab()
    assert max(tokenizer.get_vocab().values()) == len(BYTES) + 2


@pytest.mark.parametrize(("says", "begins"), [({}, True), ({"add_bos_token": False}, False)])
def test_a_file_says_whether_texts_begin_with_a_token(says, begins):
    assert (pieces_of(byte_level("llama-bpe", **says), "x")[0] == "<a>") == begins
    assert pieces_of(byte_level("smollm", add_bos_token=True, add_eos_token=True), "x") == ["<a>", "x", "<z>"]


def sentence_pieces(architecture, words, **further):
    special = [("<pad>", CONTROL, 0.0), ("<eos>", CONTROL, 0.0), ("<bos>", CONTROL, 0.0), ("<unk>", UNKNOWN, 0.0)]
    made = [*special, *((f"<0x{byte:02X}>", BYTE, 0.0) for byte in range(256)), *words]
    ids = {"padding_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "unknown_token_id": 3}
    return read_tokenizer(file_of(made, architecture, model="llama", **ids | further))


LETTERS = [(letter, NORMAL, -100.0 - place) for place, letter in enumerate("▁ehlo")]


def test_the_merge_of_the_highest_score_comes_first():
    llama = sentence_pieces("llama", [("he", NORMAL, -5.0), ("▁h", NORMAL, -1.0), ("lo", NORMAL, -2.0), *LETTERS])
    assert pieces(llama, "hello") == ["<bos>", "▁h", "e", "l", "lo"]
    assert len(llama) == 4 + 256 + 3 + len(LETTERS)
    assert pieces(llama, " hello") == ["<bos>", "▁", "▁h", "e", "l", "lo"]
    assert pieces(llama, "é") == ["<bos>", "▁", "<0xC3>", "<0xA9>"]
    bare = sentence_pieces("llama", [("he", NORMAL, -5.0), *LETTERS], add_space_prefix=False)
    assert pieces(bare, "hello") == ["<bos>", "he", "l", "l", "o"]


def test_gemma_merges_in_the_order_of_its_tokens_and_the_longest_run_of_spaces_first():
    runs = [(" " * length, USER_DEFINED, 0.0) for length in (2, 3)]
    words = [*runs, ("<turn>", USER_DEFINED, 0.0), ("he", NORMAL, -9.0), ("el", NORMAL, -1.0)]
    gemma = sentence_pieces("gemma3", [*words, *LETTERS])
    assert pieces(gemma, "hel  lo    ") == ["<bos>", "he", "l", "▁▁", "l", "o", "▁▁▁", "▁"]
    assert pieces_of(gemma, "<turn>h▁▁") == ["<bos>", "<turn>", "h", "▁▁"]
    assert len(gemma) == 4 + 256 + len(words) + len(LETTERS)


@pytest.mark.parametrize(
    ("words", "stops"),
    [
        (["<|im_end|>"], [1, 2]),
        # A file may name none of the tokens of its template, or another model's.
        (["<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>"], [1, 4, 3, 5]),
        (["<|endoftext|>", "<end_of_turn>"], [1, 3]),
        (["<|endoftext|>"], [1, 2]),
        (["<｜end▁of▁sentence｜>"], [1, 2]),
        (["<|im_end|>x", "xy"], [1]),
    ],
)
@pytest.mark.parametrize("kind", [CONTROL, USER_DEFINED, NORMAL])
def test_tokens_that_end_turns_are_stops_by_their_text(words, stops, kind):
    made = [("<a>", CONTROL), ("<z>", CONTROL), *((word, kind) for word in words), *((each, NORMAL) for each in BYTES)]
    ids = {"model": "gpt2", "pre": "gpt-2", "merges": [], "bos_token_id": 0, "eos_token_id": 1}
    file = file_of([*made, ("<EOT>", UNUSED)], **ids)
    assert stop_tokens(file) == stops
    tokenizer = read_tokenizer(file)
    assert [tokenizer.added_tokens_decoder[stop].special for stop in stops] == [True] * len(stops)
    for stop in stops:
        assert tokenizer(file.texts("tokenizer.ggml.tokens")[stop])["input_ids"] == [stop]
