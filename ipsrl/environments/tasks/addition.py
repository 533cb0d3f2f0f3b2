"""Addition, of remainders too: one right number for each prompt, and several right ways to spell it."""

import dataclasses
import functools
import itertools
import random
import re
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from ipsrl.checking.fields import between, one_of
from ipsrl.environments.text import TextTask

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
THINK, NO_THINK, WORKED, MODULO, REVERSED = "<think>", "<no_think>", ":", "%", "reversed"
SPELLINGS: dict[str, Callable[[str], Sequence[str]]] = {
    "plain": lambda digits: digits,
    "zero": lambda digits: f"0{digits}",
    "sign": lambda digits: f"+{digits}",
    "decimal": lambda digits: f"{digits}.0",
    "fraction": lambda digits: f"{digits}/1",
    "places": lambda digits: "+".join(_places(digits)),
    "reversed": lambda digits: (REVERSED, *digits[::-1]),
    "words": lambda digits: [WORDS[int(digit)] for digit in digits],
}
"""Name -> the symbols of a number, given its digits. No two numbers and spellings have the same symbols."""
SIGNS = (THINK, NO_THINK, WORKED, "+", ".", "/", REVERSED, MODULO)
MOST_PROBLEMS = 4096
# Above all sums, so that no prompt shows its own answer.
EXAMPLE = 2046

_BESIDE_SIGN = re.compile(r" ?([+/]) ?")
_BETWEEN_SIGNS = re.compile(r"(?<=[\d+./]) (?=[\d+./])")
HOW = {
    "none": "Do not work first. Write the number",
    "optional": "You may work first. Then write the number",
    "announced": f"Begin with {THINK} your work </think>, or with {NO_THINK} to do without. Then write the number",
}


@dataclasses.dataclass(frozen=True)
class Addition(TextTask):
    """Hypotheses are numbers in a spelling; one is valid if the number is the sum that the prompt asks for.

    A prompt asks for the sum of two numbers with `digits` digits each, or for its remainder by `modulus`. No two
    prompts have the same numbers in the same order. The hypothesis space holds all numbers from 0 to the largest sum,
    or the remainders, each in all `spellings`: outcome i is the number i // len(spellings). So each prompt has as many
    right hypotheses as there are spellings. Those of 42 are:

        plain 42,  zero 042,  sign +42,  decimal 42.0,  fraction 42/1,  places 40+2,  reversed "reversed 24",
        words "four two"

    `places` has all places down from the first, and at least two: 500+0+9, 0+7. Everything else has no outcome: larger
    numbers, 0042, 42.00, 1,242 and spellings that are left out.

    With a `scratchpad`, any symbols may stand before an answer, up to the last ":", and have no part in the outcome.
    In half of the random forms they are the digits of the number from the last to the first, the order in which carries
    arise: "9 7 5 : + 5 7 9" is +579. If it is `announced`, the first token must say whether there is one, `<think>` or
    `<no_think>`: the control token of `degrpo`, and of `hgpo(think_token=5)`.

    Compact prompts and answers have one token for each digit, sign and word. In text, a number stands between answer
    tags, with or without blanks beside + and /; what stands before the tags is never read.

    Attributes:
      digits: of each number, 1 to 3.
      modulus: 0 for none, else 2 or more, and not above the largest sum.
      problems: number of prompts, at most 4096, and no more than there are pairs of numbers.
      spellings: which ones are right, each once.
      scratchpad: `none`, `optional`, or `announced` by a control token.
      seed: of the problems.
    """

    digits: int = between(1, 3, 3)
    modulus: int = 0
    problems: int = between(1, MOST_PROBLEMS, 64)
    spellings: tuple[str, ...] = one_of(*SPELLINGS, default=tuple(SPELLINGS))
    scratchpad: str = one_of(*HOW, default="none")
    seed: int = between(0, 2**32 - 1, 0)

    symbols: ClassVar[tuple[str, ...]] = (*SIGNS, *"0123456789", *WORDS)
    # Those that say which spelling, or which mode, an answer has.
    planning_symbols: ClassVar[tuple[str, ...]] = (THINK, NO_THINK, "+", ".", "/", REVERSED)
    reads_quickly: ClassVar[bool] = True
    lists_all: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        largest_sum = 2 * self._numbers[-1]
        if self.modulus and not 2 <= self.modulus <= largest_sum:
            raise ValueError(f"modulus is {self.modulus}, it must be 0 for none, or lie between 2 and {largest_sum}")
        if self.problems > len(self._numbers) ** 2:
            raise ValueError(
                f"problems is {self.problems}, but digits={self.digits} has only {len(self._numbers) ** 2} pairs of "
                "numbers: choose fewer problems"
            )
        if not self.spellings or len(set(self.spellings)) < len(self.spellings):
            raise ValueError(f"spellings is {self.spellings}, it must have one spelling or more, each once")

    @property
    def _numbers(self) -> range:
        return range(10 ** (self.digits - 1), 10**self.digits)

    @functools.cached_property
    def summands(self) -> tuple[tuple[int, int], ...]:
        """The two numbers of each prompt."""
        numbers = self._numbers
        drawn = random.Random(self.seed).sample(range(len(numbers) ** 2), self.problems)
        return tuple((numbers[pair // len(numbers)], numbers[pair % len(numbers)]) for pair in drawn)

    @property
    def values(self) -> range:
        """The numbers of the hypothesis space."""
        return range(self.modulus or 2 * self._numbers[-1] + 1)

    @functools.cached_property
    def forms(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Each hypothesis -> the digits of its number, and its symbols without scratchpad."""
        spelled = itertools.product(map(str, self.values), self.spellings)
        forms = [(digits, tuple(SPELLINGS[spelling](digits))) for digits, spelling in spelled]
        return {_joined(form): (digits, form) for digits, form in forms}

    @functools.cached_property
    def answers(self) -> tuple[str, ...]:
        return tuple(self.forms)

    def name(self, answer: str) -> str:
        return answer

    @functools.cached_property
    def problem_table(self) -> dict[tuple[int, int], tuple[str, ...]]:
        """The two numbers of each prompt -> what their sum, or its remainder, may be called."""
        each, table = len(self.answers) // len(self.values), {}
        for first, second in self.summands:
            right = (first + second) % len(self.values)
            table[first, second] = self.answers[each * right :][:each]
        return table

    @functools.cached_property
    def longest_answer(self) -> int:
        return max(len(self._answer(answer, self.scratchpad != "none")) for answer in self.answers)

    def observation_symbols(self, problem: tuple[int, int]) -> list[str]:
        first, second = problem
        remainder = [MODULO, *str(self.modulus)] if self.modulus else []
        return [*str(first), "+", *str(second), *remainder]

    def _works(self, rng: np.random.Generator | None) -> bool:
        return self.scratchpad != "none" and rng is not None and bool(rng.integers(2))

    def _answer(self, answer: str, work: bool) -> list[str]:
        digits, form = self.forms[answer]
        mode = [THINK if work else NO_THINK] if self.scratchpad == "announced" else []
        return [*mode, *([*digits[::-1], WORKED] if work else []), *form]

    def spell(self, answer: str, rng: np.random.Generator | None) -> list[str]:
        return self._answer(answer, self._works(rng))

    def read_symbols(self, symbols: Sequence[str]) -> str | None:
        works = WORKED in symbols
        if self.scratchpad == "announced":
            if tuple(symbols[:1]) != (THINK if works else NO_THINK,):
                return None
            symbols = symbols[1:]
        if self.scratchpad != "none" and works:
            symbols = symbols[len(symbols) - symbols[::-1].index(WORKED) :]
        return _joined(symbols)

    @staticmethod
    def read_text(text: str) -> str:
        """The answer without capitals, line breaks, and blanks beside + and /."""
        return _BESIDE_SIGN.sub(r"\1", " ".join(text.lower().split()))

    def answer_words(self, answer: str, rng: np.random.Generator | None) -> str:
        work = " ".join(self.forms[answer][0][::-1]) + "\n" if self._works(rng) else ""
        if self.scratchpad == "announced":
            work = f"{THINK} {work.strip()} </think>\n" if work else f"{NO_THINK}\n"
        return f"{work}<answer> {answer} </answer>"

    def prompt_words(self, problem: tuple[int, int], earlier: str) -> str:
        first, second = problem
        of_what = f"the remainder of ({first} + {second}) / {self.modulus}" if self.modulus else f"{first} + {second}"
        ways = "\n".join(_joined(SPELLINGS[name](str(EXAMPLE))) for name in self.spellings)
        return f"""\
What is {of_what}?

The number {EXAMPLE}, as an example, is spelled in any of these ways:
{ways}
{earlier}
{HOW[self.scratchpad]} in one of these ways between these tags, for instance:
<answer> {_joined(SPELLINGS[self.spellings[0]](str(EXAMPLE)))} </answer>"""


def _places(digits: str) -> list[str]:
    """The value of each digit at its place, of two places or more."""
    digits = digits.zfill(2)
    return [str(int(digit) * 10**place) for digit, place in zip(digits, reversed(range(len(digits))), strict=True)]


def _joined(symbols: Sequence[str]) -> str:
    """The symbols as text: a blank beside each word, and none elsewhere."""
    return _BETWEEN_SIGNS.sub("", " ".join(symbols))
