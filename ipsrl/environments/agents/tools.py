"""Language tasks in which the model may call tools between its lines: a calculator, a search in a folder of texts."""

import contextlib
import dataclasses
import functools
import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl import extras
from ipsrl.checking import specifications
from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked, Range, in_range, positive
from ipsrl.checking.paths import expanded
from ipsrl.checking.regular_files import open_regular
from ipsrl.distributed.start_up import cache_folder
from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.reading.answer_text import plain_lines
from ipsrl.environments.reading.arithmetic import divides_by_zero, read_arithmetic, value
from ipsrl.structures import Trajectories

CALL = re.compile(r"^\s*(\w+)\((.*)\)\s*$")
State = dict[str, Array]


class Tool(Protocol):
    """A picklable function of text. Where it raises or takes too long, the model reads that it has failed.

    Attributes:
      name: under which the model calls it, as in `search(lakes in Peru)` on a line of its own.
    """

    name: str

    def __call__(self, argument: str) -> str: ...


NAME = Range("consist of letters, digits and _, as in name(argument)", re.compile(r"\w+").fullmatch)
"""The allowed names of tools: those that `CALL` finds before the bracket."""


@dataclasses.dataclass(frozen=True)
class Calculator(Checked):
    """The value of an arithmetic expression, such as `calculate(3 * (4.50 + 5))`, exactly: 57/2.

    Numbers are those of docs/answers.md, with + - * / ^. Of an equation the first side that can be read counts.
    """

    name: str = in_range(NAME, "calculate")

    def __call__(self, argument: str) -> str:
        sides = " ".join(plain_lines(argument.strip())).split("=")
        tree = next((tree for side in sides if (tree := read_arithmetic(side)) is not None), None)
        if tree is None:
            return "this is not an expression"
        number = value(tree)
        if number is None:
            return "division by zero" if divides_by_zero(tree) else "this is too large, or not rational"
        return str(number)


@dataclasses.dataclass(frozen=True)
class Search(Checked):
    """The paragraph of a folder of texts (`*.txt`) that fits best by BM25 (the library bm25s, extra [tools]).

    Attributes:
      folder: with the texts; paragraphs are separated by empty lines.
      characters: after which a paragraph is cut.

    Raises:
      ValueError: the folder holds no paragraph, a file in it is not UTF-8, or the library is missing.
    """

    folder: str
    characters: int = positive(200)
    name: str = in_range(NAME, "search")

    def __post_init__(self):
        super().__post_init__()
        if not _paragraphs(self.folder):
            raise ValueError(f"{self.folder} holds no texts: give a folder with *.txt files")
        _index(self.folder)

    def __call__(self, argument: str) -> str:
        extras.require("bm25s")
        import bm25s

        words = bm25s.tokenize([argument], show_progress=False, return_ids=False)
        if not words[0]:
            return "nothing found"
        places, scores = _index(self.folder).retrieve(words, k=1, show_progress=False)
        return _paragraphs(self.folder)[int(places[0, 0])][: self.characters] if scores[0, 0] > 0 else "nothing found"


TOOLS: dict[str, type] = {"calculator": Calculator, "search": Search}


@checked
def make_tools(text: str) -> tuple[Tool, ...]:
    """Tools from a text such as `"calculator, search(folder=texts)"`.

    Raises:
      ValueError: unknown name or argument, or a tool cannot be made so.
    """
    return tuple(specifications.build(tool, TOOLS, "tool") for tool in specifications.split(text))


def check_tools(text: str) -> None:
    """Raises ValueError as `make_tools`, as far as names and types of arguments tell; makes nothing. May be empty."""
    for tool in specifications.split(text) if text else ():
        specifications.read(tool, TOOLS, "tool")


@functools.cache
def _paragraphs(folder: str) -> tuple[str, ...]:
    texts = [_text(path) for path in sorted(expanded(folder, "folder").glob("*.txt"))]
    return tuple(" ".join(part.split()) for text in texts for part in re.split(r"\n\s*\n", text) if part.strip())


def _text(path: Path) -> str:
    """The text in a file, with or without a byte order mark."""
    try:
        with open_regular(path, "r", encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 ({error.object[error.start]:#04x} at byte {error.start}): convert it, as by iconv"
        ) from error


@functools.cache
def _index(folder: str) -> Any:
    """The index of a folder, built once and then read from the cache folder: no worker has the time to build it."""
    extras.require("bm25s")
    import bm25s

    texts = _paragraphs(folder)
    digest = hashlib.sha256("\n\n".join(texts).encode()).hexdigest()
    entry = cache_folder() / "search" / digest[:32]
    if not entry.exists():
        built = bm25s.BM25()
        built.index(bm25s.tokenize(texts, show_progress=False, return_ids=False), show_progress=False)
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=entry.parent) as temporary:
            built.save(Path(temporary) / "index", show_progress=False)
            with contextlib.suppress(OSError):  # another process was faster
                (Path(temporary) / "index").rename(entry)
    return bm25s.BM25.load(entry, mmap=True)


@dataclasses.dataclass(frozen=True)
class ToolUse(LanguageTask):
    """A `LanguageTask` whose model may call tools. A line of the model that is a call, such as `calculate(2 + 3)`, is
    answered by a line of the tool; other lines are not. The last answer that the model itself writes is verified.

    Tools run in the processes of `verifier`, with its time limit for each call; without processes there is none.

    Attributes:
      tools: at least one, of different names.
      calls: number of calls that are answered in one trajectory.
      longest_reply: maximum number of tokens of a tool's line; more words are cut.

    Raises:
      ValueError: as `LanguageTask`, two tools have the same name, no token of the tokenizer ends a line, or there are
        stop strings, which would end an answer in the middle of a call.
    """

    tools: tuple[Tool, ...] = (Calculator(),)
    calls: int = positive(4)
    longest_reply: int = positive(64)

    uses_tools: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tools or len({tool.name for tool in self.tools}) < len(self.tools):
            raise ValueError("tools must be at least one, each with a name of its own")
        if self._stops is not None:
            raise ValueError("stop strings would end an answer in the middle of a call: leave out these or the tools")
        if not self.line_ends:
            raise ValueError(f"no token of the tokenizer in {self.tokenizer_dir} ends a line, so no call could end")
        if self.longest_reply <= len(self._line_end):
            raise ValueError(f"longest_reply is {self.longest_reply}, which leaves no room for the words of a line")

    @functools.cached_property
    def line_ends(self) -> tuple[int, ...]:
        """The tokens that end a line."""
        tokens = range(len(self.tokenizer))
        texts = self.tokenizer.batch_decode([[token] for token in tokens], clean_up_tokenization_spaces=False)
        return tuple(token for token, text in zip(tokens, texts, strict=True) if text.endswith("\n"))

    def reset(self, key: Array, prompt_index: Array, member: Array) -> State:
        last, ended = super().reset(key, prompt_index, member)
        return {
            "last": last,
            "ended": ended,
            "waits": jnp.bool_(False),
            "left": jnp.int32(self.calls),
            "reply": jnp.zeros(self.longest_reply, jnp.int32),
            "length": jnp.int32(0),
            "spoken": jnp.int32(0),
        }

    def observe(self, state: State) -> Array:
        return state["last"]

    def dictated(self, state: State) -> Array:
        return jnp.where(state["spoken"] < state["length"], state["reply"][state["spoken"]], -1)

    def step(self, state: State, token: Array) -> State:
        speaks = state["spoken"] < state["length"]
        last, ended = super().step((state["last"], state["ended"]), token)
        ended = jnp.where(speaks, state["ended"], ended)
        ends_line = jnp.isin(last, jnp.array(self.line_ends, jnp.int32))
        waits = ~speaks & ends_line & (state["left"] > 0) & ~ended
        return state | {"last": last, "ended": ended, "waits": waits, "spoken": state["spoken"] + speaks}

    def finished(self, state: State) -> Array:
        return state["ended"]

    def waiting(self, state: State) -> Array:
        return state["waits"]

    def hear(self, state: State, reply: Array, length: Array) -> State:
        heard = {"reply": reply, "length": length, "spoken": jnp.int32(0), "waits": jnp.bool_(False)}
        return state | heard | {"left": state["left"] - (length > 0)}

    def call(
        self, prompt_index: Sequence[int], answers: Sequence[np.ndarray], own: Sequence[np.ndarray]
    ) -> list[list[int]]:
        lines = [self._last_line(_turns(answer, mask)[-1]) for answer, mask in zip(answers, own, strict=True)]
        calls = [line for line in lines if _called(self.tools, line)]
        replies = iter(self.verifier.read(functools.partial(reply_to, self.tools), calls))
        return [self._as_line(next(replies)) if _called(self.tools, line) else [] for line in lines]

    def _last_line(self, turn: np.ndarray) -> str:
        """The line that the last token of a turn ends; empty if that token is nothing but one more line end."""
        before, whole = self.answer_texts([turn[:-1], turn])
        return "" if before.endswith("\n") else whole.rstrip("\n").rpartition("\n")[2]

    def _as_line(self, reply: str | None) -> list[int]:
        # What a tool has found is text, even where it looks like the marks of a chat.
        plain = {"add_special_tokens": False, "split_special_tokens": True}
        tokens = self.tokenizer("no answer in time" if reply is None else reply, **plain)["input_ids"]
        return [*tokens[: self.longest_reply - len(self._line_end)], *self._line_end]

    @functools.cached_property
    def _line_end(self) -> list[int]:
        return self.tokenizer("\n", add_special_tokens=False)["input_ids"]

    def _texts(self, trajectories: Trajectories) -> Iterator[list[str]]:
        """The texts that the model itself wrote, group by group."""
        tokens, mask = np.asarray(trajectories.tokens), np.asarray(trajectories.token_mask)
        for answers, of_policy in zip(tokens, mask, strict=True):
            turns = map(_turns, answers, of_policy)
            yield ["\n".join(self.answer_texts(own)) for own in turns]


def reply_to(tools: tuple[Tool, ...], line: str) -> str:
    """The reply of the tool that a line calls, on one line; empty if the line is not a call."""
    called = _called(tools, line)
    if called is None:
        return ""
    try:
        return " ".join(called[0](called[1]).split())
    except Exception as error:
        # The model has to live with a tool that fails, as with one that hangs.
        return f"{called[0].name} failed: {type(error).__name__}"


def _called(tools: tuple[Tool, ...], line: str) -> tuple[Tool, str] | None:
    found = CALL.match(line)
    named = {tool.name: tool for tool in tools}
    return (named[found[1]], found[2]) if found and found[1] in named else None


def _turns(tokens: np.ndarray, own: np.ndarray) -> list[np.ndarray]:
    """The runs of tokens that the model itself wrote."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], own, [False]])))
    return [tokens[first:last] for first, last in edges.reshape(-1, 2)]
