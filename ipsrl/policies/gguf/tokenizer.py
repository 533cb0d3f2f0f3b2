"""The tokenizer of a GGUF file, as transformers reads it."""

import dataclasses
import json
import textwrap
from pathlib import Path
from typing import Any

from ipsrl.checking.arguments import shown
from ipsrl.checking.model_folder import read_object
from ipsrl.policies.gguf.file import File

# Kinds of tokens, in tokenizer.ggml.token_type.
CONTROL, USER_DEFINED, UNUSED = 3, 4, 5
SPACE = "▁"
STOPS = ("eos", "eot", "eom")
"""Tokens that end an answer, a turn, and a message to a tool."""
TURN_ENDS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<EOT>", "_<EOT>", "[EOT]", "<end_of_utterance>", "<turn|>",
    "<|eom_id|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
)  # fmt: skip
TEXT_ENDS = ("<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "[EOS]", "</s>", "<eos>")
"""Tokens that llama.cpp takes for stops by their text (src/llama-vocab.cpp), because many files do not name them."""
ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
"""Name of a special token in `transformers` -> in GGUF."""
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


@dataclasses.dataclass(frozen=True)
class Splitting:
    """The treatment of text by a byte-level tokenizer before it merges bytes.

    Attributes:
      pattern: a regular expression whose matches are not merged with each other; None for GPT-2's.
      digits: whether digits are separated from each other and from the rest before that.
      composed: whether text is first brought into the normal form NFC.
      whole: whether a match that is a token is not merged from bytes.
      begins: whether texts begin with the bos token, unless the file says otherwise.
    """

    pattern: str | None = None
    digits: bool = False
    composed: bool = False
    whole: bool = False
    begins: bool = False


SPLITTINGS = {
    "gpt-2": Splitting(),
    "smollm": Splitting(digits=True),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), Splitting(LLAMA3, whole=True, begins=True)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), Splitting(QWEN2, composed=True)),
}
"""Splitting for each value of tokenizer.ggml.pre, which files do not explain further."""


def read_tokenizer(file: File) -> Any:
    """The fast tokenizer of `transformers`, with special tokens and chat template.

    Raises:
      ValueError: the file has another kind of tokenizer, or a damaged one.
    """
    # Imported late: it takes a second.
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    tokens, kinds = file.texts("tokenizer.ggml.tokens"), file.metadata.get("tokenizer.ggml.token_type")
    if not isinstance(kinds, list) or len(kinds) != len(tokens):
        raise ValueError(f"{file.path} does not say of what type its {len(tokens)} tokens are")
    stops = set(stop_tokens(file))
    # Whatever the file says of them, as in llama.cpp.
    kinds = [CONTROL if number in stops else kind for number, kind in enumerate(kinds)]
    # Unused tokens fill the vocabulary up to the size of the embeddings.
    vocabulary = {token: number for number, token in enumerate(tokens) if kinds[number] != UNUSED}
    if len(vocabulary) != len(kinds) - kinds.count(UNUSED):
        raise ValueError(f"{file.path} has a token twice")
    special = {f"{role}_token": tokens[number] for role, number in special_tokens(file).items() if role in ROLES}
    model = file.value("tokenizer.ggml.model", str)
    try:
        if model == "gpt2":
            backend, begins = _byte_level(file, vocabulary)
        elif model == "llama":
            backend, begins = _sentence_pieces(file, kinds, vocabulary, special.get("unk_token")), True
        else:
            raise ValueError(f"{file.path} has a tokenizer {model!r}, but only gpt2 and llama can be imported")
        for kind, add in ((CONTROL, backend.add_special_tokens), (USER_DEFINED, backend.add_tokens)):
            found = (number for number in vocabulary.values() if kinds[number] == kind)
            add([AddedToken(backend.id_to_token(number), normalized=False) for number in found])
    except ValueError:
        raise
    # The errors of its Rust are plain exceptions.
    except Exception as error:
        raise ValueError(
            f"the tokenizer of {file.path} is damaged ({textwrap.shorten(str(error), 200)}): download it again"
        ) from error
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        add_bos_token=file.value("tokenizer.ggml.add_bos_token", bool, begins) and "bos_token" in special,
        add_eos_token=file.value("tokenizer.ggml.add_eos_token", bool, False),
        chat_template=file.value("tokenizer.chat_template", str, None),
        model_max_length=file.of_architecture("context_length", int),
        **special,
    )


def special_tokens(file: File) -> dict[str, int]:
    """Name of each special token, such as "eos", -> its number.

    Raises:
      ValueError: there is no such token, or none that ends an answer.
    """
    number_of = len(file.texts("tokenizer.ggml.tokens"))
    found = {}
    for role in dict.fromkeys((*ROLES, *STOPS)):
        number = file.metadata.get(key := f"tokenizer.ggml.{ROLES.get(role, role)}_token_id")
        if number is not None and not (type(number) is int and 0 <= number < number_of):
            raise ValueError(f"{file.path} has {key} {shown(number)}, but {number_of} tokens")
        if number is not None:
            found[role] = number
    if not set(found) & set(STOPS):
        raise ValueError(f"{file.path} names no token that ends an answer")
    return found


def stop_tokens(file: File) -> list[int]:
    """The tokens that end an answer: those that the file names, then by their text those of turns, or else of texts.

    Raises:
      ValueError: as `special_tokens`.
    """
    named, kinds = special_tokens(file), file.metadata["tokenizer.ggml.token_type"]
    number_of = {token: n for n, token in enumerate(file.texts("tokenizer.ggml.tokens")) if kinds[n] != UNUSED}
    turns, texts = ([number_of[end] for end in ends if end in number_of] for ends in (TURN_ENDS, TEXT_ENDS))
    return list(dict.fromkeys([*(named[role] for role in STOPS if role in named), *(turns or texts)]))


def require_read_as_written(folder: Path) -> None:
    """Raises ValueError if transformers splits the text of this family otherwise than its tokenizer.json says."""
    from transformers import AutoTokenizer

    written = read_object(folder / "tokenizer.json")
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    read = json.loads(tokenizer.backend_tokenizer.to_str())
    for part in ("normalizer", "pre_tokenizer"):
        if read[part] != written[part]:
            raise ValueError(
                f"the {part} of this file is {shown(written[part])}, but transformers reads models of "
                f"its family with {shown(read[part])}"
            )


def _byte_level(file: File, vocabulary: dict[str, int]) -> tuple[Any, bool]:
    """A byte-level BPE, and whether texts begin with the bos token by default."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    pre = file.value("tokenizer.ggml.pre", str)
    if pre not in SPLITTINGS:
        raise ValueError(f"{file.path} has a pre-tokenizer {pre!r}, but only {', '.join(SPLITTINGS)} can be imported")
    splitting = SPLITTINGS[pre]
    merges: list[Any] = [tuple(merge.split(" ")) for merge in file.texts("tokenizer.ggml.merges")]
    backend = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=splitting.whole))
    first: list[pre_tokenizers.PreTokenizer] = []
    if splitting.digits:
        first.append(pre_tokenizers.Digits(individual_digits=True))
    if splitting.pattern is not None:
        first.append(pre_tokenizers.Split(Regex(splitting.pattern), behavior="isolated"))
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=splitting.pattern is None)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*first, last])
    backend.normalizer = normalizers.NFC() if splitting.composed else None
    backend.decoder = decoders.ByteLevel()
    return backend, splitting.begins


def _sentence_pieces(file: File, kinds: list[int], vocabulary: dict[str, int], unknown: str | None) -> Any:
    """A BPE of SentencePiece, whose merges follow from the scores of its tokens."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers.tokenization_utils_base import generate_merges

    scores = file.metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(kinds):
        raise ValueError(f"{file.path} does not give a score to each of its {len(kinds)} tokens")
    gemma = file.architecture.startswith("gemma")
    ranks: dict[str, float] = {token: scores[number] for token, number in vocabulary.items()}
    if gemma:
        # Its runs of spaces are stored as such. The longest run comes first, then the order of tokens: not the scores.
        vocabulary = {token if token.strip(" ") else SPACE * len(token): number for token, number in vocabulary.items()}
        ranks = {
            token: len(token) if kinds[number] == USER_DEFINED else -number for token, number in vocabulary.items()
        }
    merges = generate_merges(vocabulary, ranks)
    backend = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    begun = file.value("tokenizer.ggml.add_space_prefix", bool, not gemma)
    spaces = normalizers.Replace(" ", SPACE)
    backend.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces]) if begun else spaces
    if gemma:
        backend.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    words = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*words, decoders.Strip(" ", left=1)] if begun else words)
    return backend
