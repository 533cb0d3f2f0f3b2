"""Addition in two modes: a short answer states the sum, a thinking one first writes the columns with their carries."""

import dataclasses
import functools
import random
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import below_one, between, one_of
from ipsrl.environments.reading.answer_text import tagged_answer
from ipsrl.environments.tasks.addition import EXAMPLE, HOW, NO_THINK, THINK, WORKED, Addition
from ipsrl.environments.token_stream import written_answers
from ipsrl.structures import Trajectories

MODES = ("short", "think")
PROBLEMS_OF_A_DIFFICULTY = 36
"""There are as many sums of two single digits, from 1 to 9, without a carry."""

State = tuple[Array, Array, Array]


@dataclasses.dataclass(frozen=True)
class AdditionModes(Addition):
    """Hypotheses are numbers in a mode, `short` or `think`; one is valid if the number is the sum of the prompt.

    The first token says the mode, and outcome 2 v + m is the number v in mode m, so that modes are outcomes. The right
    answers to 47 + 85 are

        <no_think> 1 3 2
        <think> 1 2 1 3 : 1 3 2

    because 7 + 5 is 12, and 4 + 8 + 1 is 13. A thinking answer has a ":", and what stands before it is never checked; a
    short one has none. A number is spelled in its digits only, and what breaks the format has no outcome.

    A right short answer is worth 1, a right thinking one 1 - gamma, a wrong one 0 (Thinkless: -1). The two numbers of a
    prompt have n digits each, 1 to `digits`, and their sum has c carries, 0 to n. The prompt's `difficulty` is n + c.
    Each difficulty, from 1 to 2 `digits`, has as many prompts as every other, up to one, and likewise each n in it.

    Modes may be forced, by a dictated first token: `short` and `think` force all answers, to measure the skill of a
    mode. `half` forces half of each group by the number of the member: of every four, the second thinks and the fourth
    is short, so that groups are trained only if their size is a multiple of 4. The others choose freely, because only
    they can teach the choice: a dictated token has no gradient. Language models cannot be forced.

    In text, an answer thinks if "</think>" stands before it.

    Source: the experiment that arXiv 2505.13379 (Thinkless) and 2505.14631 (HGPO) need; the language is ours. HGPO
    forces the modes of all answers, and trains on the forced tokens as if they were chosen.

    Attributes:
      digits: of the longest numbers, 1 to 3.
      problems: number of prompts, at most 72 `digits`; no two have the same numbers in the same order.
      seed: of the problems.
      gamma: what thinking costs a right answer, at least 0 and below 1.
      forced: `none`, `half`, or all answers in the mode `short` or `think`.

    Raises:
      ValueError: a field is out of range.
    """

    digits: int = between(1, 3, 2)
    modulus: int = dataclasses.field(default=0, init=False)
    problems: int = between(1, 3 * 2 * PROBLEMS_OF_A_DIFFICULTY, 64)
    spellings: tuple[str, ...] = dataclasses.field(default=("plain",), init=False)
    scratchpad: str = dataclasses.field(default="announced", init=False)
    gamma: float = below_one(0.5)
    forced: str = one_of("none", "half", *MODES, default="none")

    symbols = (THINK, NO_THINK, WORKED, "+", *"0123456789")
    planning_symbols = (THINK, NO_THINK)

    def __post_init__(self) -> None:
        super().__post_init__()
        most = 2 * self.digits * PROBLEMS_OF_A_DIFFICULTY
        if self.problems > most:
            raise ValueError(f"problems is {self.problems}, but digits={self.digits} has at most {most}: choose fewer")

    @functools.cached_property
    def summands(self) -> tuple[tuple[int, int], ...]:
        rng, found = random.Random(self.seed), {}
        for problem in range(self.problems):
            easier, difficulty = divmod(problem, 2 * self.digits)
            lengths = range(-(-(difficulty + 1) // 2), min(difficulty + 1, self.digits) + 1)
            length = lengths[easier % len(lengths)]
            numbers = range(10 ** (length - 1), 10**length)
            pair = None
            while pair is None or pair in found or _difficulty(pair) != difficulty + 1:
                pair = rng.choice(numbers), rng.choice(numbers)
            found[pair] = None
        return tuple(found)

    @functools.cached_property
    def difficulty(self) -> np.ndarray:
        """`[num_prompts]` int32, the digits of each number plus the carries of the sum."""
        return np.array([_difficulty(pair) for pair in self.summands], np.int32)

    @functools.cached_property
    def answers(self) -> tuple[str, ...]:
        return tuple(f"{mode} {value}" for value in self.values for mode in MODES)

    @functools.cached_property
    def longest_answer(self) -> int:
        return 2 + 3 * len(str(self.values[-1]))

    def spell(self, answer: str, rng: np.random.Generator | None) -> list[str]:
        """The work of a number that belongs to no prompt has random carries, and none without `rng`."""
        mode, number = answer.split()
        carries = np.zeros(len(number), int) if rng is None else rng.integers(2, size=len(number))
        work = [*zip(carries.tolist(), number[::-1], strict=True)]
        return self.answer(work if mode == "think" else None, number)

    def answer(self, work: Sequence[tuple[int, int | str]] | None, number: int | str) -> list[str]:
        """The symbols of an answer: short without `work`, the carry and the digit of each column."""
        if work is None:
            return [NO_THINK, *str(number)]
        return [THINK, *(str(symbol) for column in work for symbol in column), WORKED, *str(number)]

    def read_symbols(self, symbols: Sequence[str]) -> str | None:
        number = super().read_symbols(symbols)
        return None if number is None else f"{MODES[symbols[0] == THINK]} {number}"

    @property
    def reader(self) -> Callable[[str], str | None]:
        return _read

    def answer_words(self, answer: str, rng: np.random.Generator | None) -> str:
        mode, number = answer.split()
        if mode == "short":
            return f"{NO_THINK}\n<answer> {number} </answer>"
        work = " ".join(self.spell(answer, rng)[1:]).partition(f" {WORKED}")[0]
        return f"{THINK} {work} </think>\n<answer> {number} </answer>"

    def prompt_words(self, problem: tuple[int, int], earlier: str) -> str:
        first, second = problem
        return f"""\
What is {first} + {second}?

A right answer is worth 1 without work, and {1 - self.gamma:g} with work.
{earlier}
{HOW[self.scratchpad]} in its digits alone between these tags, for instance:
<answer> {EXAMPLE} </answer>"""

    def worth(self, outcome_id: np.ndarray) -> np.ndarray:
        return np.where(outcome_id % 2 == 1, 1 - self.gamma, 1).astype(np.float32)

    def reset(self, key: Array, prompt_index: Array, member: Array) -> State:
        think, short = self._token_of[THINK], self._token_of[NO_THINK]
        of_four = {"none": [-1] * 4, "half": [-1, think, -1, short], "think": [think] * 4, "short": [short] * 4}
        return *super().reset(key, prompt_index, member), jnp.array(of_four[self.forced], jnp.int32)[member % 4]

    @property
    def group_multiple(self) -> int:
        return 4 if self.forced == "half" else 1

    def step(self, state: tuple[Array, ...], token: Array) -> State:
        return *super().step(state, token), jnp.int32(-1)

    def dictated(self, state: tuple[Array, ...]) -> Array | None:
        return None if self.forced == "none" else state[2]

    @checked
    def modes(self, trajectories: Trajectories) -> "Modes":
        """Mode and correctness of sampled answers, whoever chose the mode; a right answer is in the right format."""
        index = np.asarray(trajectories.prompts.index)
        answers = [[answer.tolist() for answer in group] for group in written_answers(trajectories)]
        modes = {self._token_of[NO_THINK]: 0, self._token_of[THINK]: 1}
        mode = np.array([[modes.get(answer[0], -1) if answer else -1 for answer in group] for group in answers])
        outcome = np.array([[self.parse(answer) for answer in group] for group in answers])
        right = (outcome >= 0) & self.admissible[index[:, None], np.maximum(outcome, 0)]
        return Modes(mode.astype(np.int32), right, self.difficulty[index])


@dataclasses.dataclass(frozen=True)
class Modes:
    """Modes of sampled answers, and whether they are right.

    Attributes:
      mode: `[P, G]` int32, 0 for a short answer, 1 for a thinking one, -1 if the first token says neither.
      right: `[P, G]` bool.
      difficulty: `[P]` int32, of the prompts.
    """

    mode: np.ndarray
    right: np.ndarray
    difficulty: np.ndarray

    def thinking(self) -> dict[int, float]:
        """Difficulty -> share of answers that think."""
        levels = np.unique(self.difficulty).tolist()
        return {level: float((self.mode[self.difficulty == level] == 1).mean()) for level in levels}


def columns(first: int, second: int) -> list[tuple[int, int]]:
    """The carry and the digit that each column of a sum gives, from the last, of numbers with equally many digits."""
    found, carry = [], 0
    for one, other in zip(str(first)[::-1], str(second)[::-1], strict=True):
        carry, digit = divmod(int(one) + int(other) + carry, 10)
        found.append((carry, digit))
    return found


def _difficulty(pair: tuple[int, int]) -> int:
    return sum(1 + carry for carry, _ in columns(*pair))


def _read(text: str) -> str | None:
    number = tagged_answer(str, text)
    return None if number is None else f"{MODES['</think>' in text]} {number}"
