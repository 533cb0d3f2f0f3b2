"""N queens: complete a chess board with n queens of which no two attack each other.

The task `n_queens` of reasoning-gym (github.com/open-thought/reasoning-gym, 0.1.25), with its problems and words.
"""

import dataclasses
import functools
import itertools
import random
import re
from collections.abc import Sequence

import numpy as np

from ipsrl.checking.fields import between
from ipsrl.environments.listed_task import LARGEST_SPACE
from ipsrl.environments.tasks.drawing import drawn_problems
from ipsrl.environments.text import TextTask

FREE, QUEEN = "_", "Q"

# The column of the queen in each row, from 0.
Board = tuple[int, ...]
# The same, with -1 for a row without a queen.
Given = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class NQueens(TextTask):
    """Hypotheses are the boards with n queens that do not attack each other; one is valid if it has the given queens.

    A prompt is such a board without some of its queens. The problems are those of reasoning-gym's `n_queens` with the
    same sizes and the seeds `seed`, `seed` + 1, ..., without repetitions and those with too few solutions.

    Compact answers hold for each row the column of its queen, compact prompts the same with "_" for a row without one.
    In text, a board between answer tags, with a line for each row: "_ Q _ _" for "2", with blanks or without. Other
    boards with a queen in every row are outside the hypothesis space; all others have no outcome. (reasoning-gym's own
    verifier asks for exactly one blank between squares, and evaluates an answer that is written otherwise as code.)

    Attributes:
      n: rows, 4 to 9.
      min_remove, max_remove: how many queens are taken from a board, 1 to n.
      problems: number of prompts.
      least_solutions: of every prompt, 1 or more.
      seed: of the first problem.

    Raises:
      ValueError: a field is out of range. Also, when problems are first used: too few have that many solutions.
    """

    n: int = between(4, 9, 8)
    min_remove: int = between(1, lambda task: task.n, 7)
    max_remove: int = between(lambda task: task.min_remove, lambda task: task.n, 7)
    problems: int = between(1, LARGEST_SPACE, 64)
    least_solutions: int = between(1, LARGEST_SPACE, 2)
    seed: int = between(0, 2**32 - 1, 0)

    @functools.cached_property
    def answers(self) -> tuple[Board, ...]:
        """All boards with n queens that do not attack each other, lexicographic, as reasoning-gym lists them."""
        boards: list[Board] = [()]
        for row in range(self.n):
            boards = [
                (*board, column)
                for board in boards
                for column in range(self.n)
                if all(column != other and abs(column - other) != row - above for above, other in enumerate(board))
            ]
        return tuple(boards)

    @functools.cached_property
    def problem_table(self) -> dict[Given, np.ndarray]:
        """The given queens of each prompt -> `[K]` bool, which boards have them."""
        return drawn_problems(
            map(self._drawn, itertools.count(self.seed)),
            self.problems,
            f"boards with {self.least_solutions} solutions or more",
            "fewer problems, a smaller least_solutions, a larger n or a wider range from min_remove to max_remove",
        )

    def _drawn(self, seed: int) -> tuple[Given, np.ndarray] | None:
        given = problem_of_seed(seed, self.answers, self.min_remove, self.max_remove)
        right = ((np.array(self.answers) == given) | (np.array(given) < 0)).all(axis=1)
        return (given, right) if right.sum() >= self.least_solutions else None

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*self.planning_symbols, FREE)

    @property
    def planning_symbols(self) -> tuple[str, ...]:
        """The columns: a board is only structure."""
        return tuple(_columns(range(self.n)))

    def observation_symbols(self, problem: Given) -> list[str]:
        return _columns(problem)

    def spell(self, answer: Board, rng: np.random.Generator | None) -> list[str]:
        return _columns(answer)

    def read_symbols(self, symbols: Sequence[str]) -> Board | None:
        is_board = len(symbols) == self.n and all(symbol.isdecimal() for symbol in symbols)
        return tuple(int(symbol) - 1 for symbol in symbols) if is_board else None

    def read_text(self, text: str) -> Board | None:
        rows = [re.sub(r"[\s|]", "", line) for line in text.split("\n")]
        queen = re.compile(f"{FREE}*{QUEEN}{FREE}*")
        is_board = len(rows) == self.n and all(len(row) == self.n and queen.fullmatch(row) for row in rows)
        return tuple(row.index(QUEEN) for row in rows) if is_board else None

    def answer_words(self, answer: Board, rng: np.random.Generator | None) -> str:
        return f"<answer>\n{_as_text(answer)}\n</answer>"

    def prompt_words(self, problem: Given, earlier: str) -> str:
        example = "\n".join(["_ " * (self.n - 1) + "Q", "..."])
        return f"""\
Your job is to complete an n x n chess board with n Queens in total, such that no two attack each other.

No two queens attack each other if they are not in the same row, column, or diagonal.

You can place a queen by replacing an underscore (_) with a Q.

Your output should be also a board in the same format as the input, with queens placed on the board by replacing \
underscores with the letter Q.

Given the below board of size {self.n} x {self.n} your job is to place {problem.count(-1)} queen(s) on the board such \
that no two queens attack each other.
{_as_text(problem)}
{earlier}
You may think first. Then write the whole board between these tags, a line for each row, for instance:
<answer>
{example}
</answer>"""


def problem_of_seed(seed: int, boards: Sequence[Board], min_remove: int, max_remove: int) -> Given:
    """The problem that reasoning-gym 0.1.25 makes of a seed: problem i of its data set has the seed `seed` + i."""
    rng = random.Random(seed)
    given = list(rng.choice(boards))
    removed = rng.randint(min_remove, max_remove)
    rows = list(range(len(given)))
    rng.shuffle(rows)
    for row in rows[:removed]:
        given[row] = -1
    return tuple(given)


def _columns(board: Sequence[int]) -> list[str]:
    """The column of each row as a symbol."""
    return [FREE if column < 0 else str(column + 1) for column in board]


def _as_text(board: Sequence[int]) -> str:
    """A line for each row."""
    n = len(board)
    return "\n".join(" ".join(QUEEN if column == queen else FREE for column in range(n)) for queen in board)
