"""HypoSpace, voxels: which structures of blocks, with gravity, have a given view from above?

Chen et al., arXiv 2510.15614.
"""

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Container, Sequence

import numpy as np

from ipsrl.checking.fields import between
from ipsrl.environments.listed_task import check_space
from ipsrl.environments.reading.answer_text import LONGEST_ANSWER, marker, plain_lines, read_lines, without_thoughts
from ipsrl.environments.text import TextTask

NEXT_LAYER = ";"
_HEADER = re.compile(
    r"[\W_]*layer *#? *(?P<number>[0-9]{1,3})\b *(?:\([^()]{0,40}\)|[,-][^:\d]{0,40})? *(?:[:.=]|$)(?P<rest>.*)",
    re.IGNORECASE,
)
_ROW_LABEL = re.compile(r"^[\W_]*row *\d* *:", re.IGNORECASE)
# Between rows that stand on one line.
_NEXT_ROW = re.compile(r"\] *,? *\[|[;/]")
_COMMENT = re.compile(r"[^\w\n]*(?:i\b|a\b|[a-z'’]{2,}).*", re.IGNORECASE)

# Layers from the ground up, each as grid * grid digits in row-major order, without empty layers on top.
Stack = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class HypospaceVoxels(TextTask):
    """Hypotheses are stacks of layers in which every block rests on the ground or on a block.

    A prompt is a top view with 1 .. `blocks` occupied cells (exactly `blocks` if `fixed`); each occupied cell is the
    top of a column of height 1 .. `max_height`, so k cells have max_height^k admissible structures.

    Compact answers hold the digits of each layer, row by row, from the ground up, with ";" between layers; compact
    prompts hold the digits of the top view. Empty layers on top change nothing: a random surface form adds some, up to
    `max_height` layers in all. In text: "Structure:", then "Layer 1:" and its rows of digits, and so on.

    As in the benchmark, an answer is valid if it has the top view and every block is supported; the height limit is not
    checked. A valid structure that is too tall is outside the hypothesis space; so are structures that float or that
    have another number of columns. In the compact vocabulary, taller structures do not fit into `max_tokens`.

    Attributes:
      grid: cells along each side, 2 to 6.
      max_height: maximum number of layers, 1 to 9.
      blocks: maximum number of occupied cells of a top view.
      fixed: whether all top views have exactly `blocks` occupied cells.

    Raises:
      ValueError: a field is out of range, or there are more than 100,000 structures.
    """

    grid: int = between(2, 6, 3)
    max_height: int = between(1, 9, 3)
    blocks: int = between(1, lambda task: task.grid**2, 3)
    fixed: bool = False

    symbols = ("0", "1", NEXT_LAYER)
    # The mark between layers: it adds a layer, which digits fill.
    planning_symbols = (NEXT_LAYER,)
    answer_marker = marker("structure")
    answer_line = re.compile(".*")

    def __post_init__(self) -> None:
        super().__post_init__()
        structures = sum(math.comb(self.grid**2, k) * self.max_height**k for k in self._block_counts)
        given = f"top views of {self.blocks} blocks on a grid of side {self.grid} give {structures} structures"
        check_space(structures, given, "choose fewer blocks, a smaller grid or height")

    @property
    def _block_counts(self) -> Sequence[int]:
        return (self.blocks,) if self.fixed else range(1, self.blocks + 1)

    @property
    def longest_answer(self) -> int:
        return self.max_height * (self.grid**2 + 1) - 1

    @functools.cached_property
    def problem_table(self) -> dict[str, list[Stack]]:
        """The top view of each prompt, grid * grid digits in row-major order -> the structures that have it."""
        counts = self._block_counts
        views = (cells for count in counts for cells in itertools.combinations(range(self.grid**2), count))
        return {self._layer(occupied): self._stacks(occupied) for occupied in views}

    def _layer(self, occupied: Container[int]) -> str:
        return "".join("01"[cell in occupied] for cell in range(self.grid**2))

    def _stacks(self, occupied: Sequence[int]) -> list[Stack]:
        stacks = []
        for heights in itertools.product(range(1, self.max_height + 1), repeat=len(occupied)):
            columns = dict(zip(occupied, heights, strict=True))
            layers = [{cell for cell in occupied if columns[cell] > layer} for layer in range(max(heights))]
            stacks.append(tuple(map(self._layer, layers)))
        return stacks

    @functools.cached_property
    def answers(self) -> tuple[Stack, ...]:
        return tuple(itertools.chain.from_iterable(self.problem_table.values()))

    def name(self, answer: Stack) -> str:
        return NEXT_LAYER.join(answer)

    def observation_symbols(self, problem: str) -> list[str]:
        return list(problem)

    def spell(self, answer: Stack, rng: np.random.Generator | None) -> list[str]:
        empty = 0 if rng is None else int(rng.integers(self.max_height - len(answer) + 1))
        return list(NEXT_LAYER.join([*answer, *["0" * self.grid**2] * empty]))

    def read_symbols(self, symbols: Sequence[str]) -> Stack | None:
        layers = "".join(symbols).split(NEXT_LAYER)
        return _settled(layers) if all(len(layer) == self.grid**2 for layer in layers) else None

    @property
    def reader(self) -> Callable[[str], Stack | None]:
        return self._read_answer

    def _read_answer(self, text: str) -> Stack | None:
        text = without_thoughts(text)
        if self.answer_marker.search(text):
            return super().reader(text)
        # The title "Structure:" is optional.
        return read_lines(plain_lines(text), self.read_text) if len(text) <= LONGEST_ANSWER else None

    def read_text(self, text: str) -> Stack | None:
        """Rows of digits under "Layer 1:" and the other headers, in any order, each once.

        Commas, bars and brackets may separate digits. Short and missing rows are filled with zeros, but every layer has
        a row. A header with a number that was there before begins another structure, and the last one counts. Comments
        may stand between layers, but no rows below them or behind their colon: nobody knows the layer of these.
        """
        layers: dict[int, list[str]] = {}
        rows: list[str] = []
        is_closed = True
        for line in text.split("\n"):
            if header := _HEADER.fullmatch(line):
                number, line = int(header["number"]), header["rest"]
                if number in layers:
                    layers = {}
                rows = layers[number] = []
                is_closed = False
            elif _COMMENT.fullmatch(line) and not _ROW_LABEL.match(line):
                is_closed = len(rows) > 0
                if layers and len(self._rows_of(line.rpartition(":")[2]) or []) >= self.grid:
                    return None
                continue
            if layers and (found := self._rows_of(line)) != []:
                if found is None or is_closed:
                    return None
                rows += found
        if sorted(layers) != [*range(1, len(layers) + 1)] or not layers:
            return None
        if any(not layer or len(layer) > self.grid for layer in layers.values()):
            return None
        return _settled(["".join(layers[number]).ljust(self.grid**2, "0") for number in sorted(layers)])

    def _rows_of(self, line: str) -> list[str] | None:
        """The rows on a line, filled with zeros; None if something else stands there."""
        rows = [re.sub(r"[\s,|()\[\]{}&*`]", "", part) for part in _NEXT_ROW.split(_ROW_LABEL.sub("", line))]
        rows = [row for row in (row.removesuffix(".") for row in rows) if row]
        if any(len(row) > self.grid or not set(row) <= {"0", "1"} for row in rows):
            return None
        return [row.ljust(self.grid, "0") for row in rows]

    def explains(self, problem: str, answer: Stack) -> bool:
        supported = all(
            below >= block
            for lower, upper in itertools.pairwise(answer)
            for below, block in zip(lower, upper, strict=True)
        )
        # If all blocks are supported, the ground layer equals the view from above.
        return supported and answer[:1] == (problem,)

    def answer_words(self, answer: Stack, rng: np.random.Generator | None) -> str:
        lines = ["Structure:"]
        for number, layer in enumerate("".join(self.spell(answer, rng)).split(NEXT_LAYER), 1):
            lines += [f"Layer {number}:", self._rows(layer)]
        return "\n".join(lines)

    def _rows(self, layer: str) -> str:
        return "\n".join(" ".join(layer[start : start + self.grid]) for start in range(0, len(layer), self.grid))

    def prompt_words(self, problem: str, earlier: str) -> str:
        return f"""\
Unit blocks are stacked on a floor of {self.grid} x {self.grid} cells, at most {self.max_height} blocks high. Seen \
from straight above, a cell shows 1 where its column holds at least one block and 0 where it is empty:

{self._rows(problem)}
{earlier}
Describe one structure with exactly this view from above. Among those possible, look for one that was not given before.

Conditions:
- Layer 1 lies on the floor and holds at least one block; layers are counted upwards from it.
- A block in a higher layer needs a block directly underneath it.
- Leave out layers without blocks, and use no more than {self.max_height} layers.

Write "Structure:", then for each layer its number and {self.grid} rows of {self.grid} digits divided by blanks, 1 for \
a block. On a 3 x 3 floor, a column of two blocks in one corner and a single block in the middle would read:

Structure:
Layer 1:
1 0 0
0 1 0
0 0 0
Layer 2:
1 0 0
0 0 0
0 0 0"""


def _settled(layers: list[str]) -> Stack:
    """The layers without empty ones on top."""
    while layers and "1" not in layers[-1]:
        layers = layers[:-1]
    return tuple(layers)
