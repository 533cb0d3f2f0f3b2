import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.reading.stop_strings import StopStrings, bytes_of_tokens, read_stop_strings
from ipsrl.environments.token_stream import TokenStream
from ipsrl.rollouts.sampler import sample_groups
from tests.environments.language.asked_tasks import BOOLEAN, HERE
from tests.environments.language.tokenizers_for_tests import EOS, ids, save_sentencepiece, save_tokenizer
from tests.environments.scripted_policy import Scripted

WORDS = (" and", " or", "ab", "abc", ". ", "a. b", "lo", "Hel", "\n\n", "né", " (")
TEXT = "Hello, né\n世界 🙂 and (so on). a. b\n\nend"
SIZE = 700
PIECES = st.sampled_from(["a", "b", "ab", "ba", ".", "a.", "\n", "é", "é.", "世"])


@pytest.fixture(scope="module", params=["byte-level", "sentencepiece"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    if request.param == "sentencepiece":
        return save_sentencepiece(folder, [word for word in WORDS if word.isascii() and word.isprintable()])
    texts = [BOOLEAN.prompt_text(0), TEXT, *(f"x{word}y" for word in WORDS)]
    save_tokenizer(folder, texts * 3, template=None, vocabulary_size=SIZE - 10)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["a. b"])
    tokenizer.save_pretrained(folder)
    return str(folder)


def first_complete(text, strings):
    """Where the string begins and ends that is complete first, by trying all places."""
    for end in range(len(text) + 1):
        for start in range(end):
            if text[start:end] in strings:
                return start, end
    return None


def states(stops, tokens):
    """The state after each token."""
    state, after = 0, []
    for token in tokens:
        state = int(stops.table[state, token])
        after.append(state)
    return after


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.lists(PIECES, min_size=1, max_size=3).map("".join), min_size=1, max_size=5),
    st.lists(PIECES, max_size=12).map("".join),
    st.lists(st.integers(1, 5), min_size=30, max_size=30),
)
@example(["abcd", "bc"], "xabcd", [5] * 30)
@example(["bc", "abc"], "xabc", [1] * 30)
@example(["aab"], "aaab", [1] * 30)
def test_an_answer_ends_where_a_search_in_its_text_says(strings, text, lengths):
    data, tokens = text.encode(), []
    for length in lengths:
        tokens.append(data[:length])
        data = data[length:]
    stops = StopStrings(tuple(string.encode() for string in strings), tuple(tokens))
    found = first_complete(text, strings)
    complete = [state == len(stops.table) - 1 for state in states(stops, range(len(tokens)))]
    # Complete with the token that holds the last byte, and for ever after.
    ends = np.cumsum(list(map(len, tokens)))
    assert complete == [found is not None and end >= len(text[: found[1]].encode()) for end in ends]
    assert stops.text_before(range(len(tokens))) == (text if found is None else text[: found[0]])


@pytest.mark.parametrize("text", [TEXT, " and so", "\n", "", "ünï世🙂"])
def test_bytes_are_those_of_the_text(folder, text):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens, known = bytes_of_tokens(tokenizer, SIZE), len(tokenizer)
    row = ids(tokenizer, f"<bos>{text}<eos>")
    assert b"".join(tokens[token] for token in row) == f"<bos>{text}<eos>".encode()
    assert tokens[EOS] == b"<eos>"
    assert set(tokens[known:]) <= {b""}


def asked(folder, **fields):
    return LanguageTask(BOOLEAN, folder, SIZE, **{"max_tokens": 40, "longest_prompt": 1500, "verifier": HERE} | fields)


def sampled(environment, tokens):
    policy = Scripted((*tokens, EOS), SIZE)
    return jax.device_get(
        sample_groups(environment, policy, {}, environment.prompts(np.arange(1)), jax.random.key(0), 2)
    )


@pytest.mark.parametrize(
    ("strings", "parts", "left"),
    [
        ((".",), ["Hel", "lo", "a. b", " and"], "Helloa"),
        (("lo, n",), ["Hel", "lo", ", ", "né", " or"], "Hel"),
        (("世",), ["a", "世", "b"], "a"),
        ((" and",), [" and", "b"], ""),
        (("\n\n", " ("), ["a", "\n", "b", "\n", "\n", " ("], "a\nb"),
        ((".",), ["Hel", "lo"], "Hello"),
    ],
)
def test_the_sampler_ends_at_a_stop_string(folder, strings, parts, left):
    environment = asked(folder, stop_strings=strings)
    tokens = [ids(environment.tokenizer, part) for part in parts]
    tokens = [token for row in tokens for token in row]
    found = sampled(environment, tokens)
    # All tokens up to the one that completes the string are actions; without any, the stop token is the last.
    texts = [b"".join(environment._stops.tokens[token] for token in tokens[:end]) for end in range(len(tokens) + 1)]
    complete = [end for end, text in enumerate(texts) if any(string.encode() in text for string in strings)]
    length = complete[0] if complete else len(tokens) + 1
    assert found.token_mask[0, 0].tolist() == [True] * length + [False] * (40 - length)
    assert not found.truncated.any()
    assert environment.answer_texts([found.tokens[0, 0][:length]]) == [left]


@pytest.mark.parametrize(
    ("string", "left"),
    [("<turn>", "Hello"), ("lo<turn>", "Hel"), ("rn>us", "Hello<tu"), ("<turn", "Hello"), (" and", "Hello<turn>user")],
)
def test_special_tokens_have_a_text_in_which_strings_are_found(folder, string, left):
    """Without a template `<turn>` is a word, but padding and the beginning of texts are none."""
    environment = asked(folder, stop_strings=("never", string))
    before = ids(environment.tokenizer, "<bos>Hello<turn>user")
    tokens = [*before, *ids(environment.tokenizer, " and so on")]
    ends = [string in environment.tokenizer.decode(tokens[:end]) for end in range(len(tokens))]
    found = sampled(environment, tokens)
    assert found.token_mask[0, 0].sum() == ends.index(True)
    assert not found.truncated.any()
    assert environment.answer_texts([tokens]) == [left]


def test_an_answer_without_stop_is_truncated_and_one_at_the_horizon_is_not(folder):
    environment = asked(folder, stop_strings=("ab",), max_tokens=3)
    pieces = {word: token for token, word in enumerate(environment._stops.tokens) if word}
    for text, truncated in ((b"bba", True), (b"bab", False)):
        found = sampled(environment, [pieces[bytes([byte])] for byte in text])
        assert found.truncated.tolist() == [[truncated] * 2]


def test_what_stands_before_an_answer_does_not_end_it(folder):
    question = BOOLEAN.prompt_text(0).strip()
    for strings in ((question[-2:] + "\n",), ("is", "s"), ("isa", "sa")):
        environment = asked(folder, stop_strings=strings, beginning="This is")
        tokens = ids(environment.tokenizer, "abc")
        found = sampled(environment, tokens)
        assert found.token_mask[0, 0].sum() == len(tokens) + 1
        assert environment.answer_texts([tokens]) == ["abc"]


@dataclasses.dataclass(frozen=True)
class Ending(type(BOOLEAN)):
    """A task that has a stop string of its own."""

    stop_strings = ("\n",)


def test_stop_strings_of_the_task_and_of_the_caller_end_an_answer(folder):
    environment = LanguageTask(Ending("basic", 1, observations=2), folder, SIZE, longest_prompt=1500, verifier=HERE)
    both = dataclasses.replace(environment, stop_strings=(".",))
    rows = [ids(environment.tokenizer, text) for text in ("ab.b\nc", "ab\nb.c")]
    assert environment.answer_texts(rows) == ["ab.b", "ab"]
    assert both.answer_texts(rows) == ["ab", "ab"]


def test_verification_reads_what_stands_before_a_stop_string(folder):
    environment = asked(folder, stop_strings=("\n\n",))
    right, other = (BOOLEAN.answer_text(hypothesis) for hypothesis in (0, 1))
    rows = ids(environment.tokenizer, f"{right}\n\n{other}")
    assert BOOLEAN.parse_text(environment.answer_texts([rows])[0]) == 0
    assert BOOLEAN.parse_text(asked(folder).answer_texts([rows])[0]) == 1
    # A critic is no model that answers.
    (quoted,) = environment.prompts_with_critique([0], [(rows, rows)]).tokens
    assert environment.tokenizer.decode(quoted).count(other) == 1 + BOOLEAN.prompt_text(0).count(other)


def test_without_stop_strings_the_programs_are_those_of_any_text(folder):
    environment = asked(folder)
    state = environment.reset(jax.random.key(0), jnp.int32(0), jnp.int32(0))
    ours, plain = (
        jax.make_jaxpr(step)(state, jnp.int32(5))
        for step in (environment.step, lambda *given: TokenStream.step(environment, *given))
    )
    assert str(ours) == str(plain)
    assert len(state) == 2


@pytest.mark.parametrize(
    ("text", "strings"), [("", ()), ("[]", ()), ('[",", "\\n", "\\u00e9"]', (",", "\n", "é")), ('[" ("]', (" (",))]
)
def test_strings_are_read_from_json(text, strings):
    assert read_stop_strings(text) == strings


def test_as_many_bytes_as_are_allowed_fit_into_the_table():
    stops = StopStrings((bytes(range(1, 256)),), tuple(bytes([byte]) for byte in range(256)))
    assert stops.table.shape == (256, 256)
    assert states(stops, range(1, 256))[-2:] == [254, 255]


def test_a_tokenizer_of_another_kind_is_refused_where_there_are_stop_strings(tmp_path):
    from tokenizers import decoders

    tokenizer = AutoTokenizer.from_pretrained(
        save_tokenizer(tmp_path / "made", [BOOLEAN.prompt_text(0)], template=None)
    )
    tokenizer.backend_tokenizer.decoder = decoders.WordPiece()
    tokenizer.save_pretrained(tmp_path / "other")
    with pytest.raises(ValueError, match=r"other is neither byte-level nor falls back to bytes, so stop strings"):
        asked(str(tmp_path / "other"), stop_strings=(".",))
    with pytest.raises(ValueError, match="a stop string is empty"):
        asked(str(tmp_path / "made"), stop_strings=("",))
    assert asked(str(tmp_path / "other")).stop_tokens == (EOS,)
