"""Factors: a proper divisor of each of several numbers, any of them.

The domain "Python factors" of ModeBench (arXiv 2610.11064) without Python: it asks for a lambda that returns a proper
divisor of each number, and takes the vector of what that returns as the solution. Here the vector itself is the answer.
"""

import dataclasses
import functools
import itertools
import math
import random
import re
from collections.abc import Iterator, Sequence

from ipsrl.checking.fields import between
from ipsrl.environments.listed_task import LARGEST_SPACE, check_space
from ipsrl.environments.tasks.drawing import drawn_problems
from ipsrl.environments.text import TextTask

# The smallest number with two proper divisors, and the largest that ModeBench takes.
SMALLEST, LARGEST = 6, 1000
_NUMBER = "[1-9][0-9]{0,3}"
_WHOLE = re.compile(rf"\[? ?{_NUMBER}(?:(?: ?, ?| ){_NUMBER})* ?\]?")

# The divisors as text.
Vector = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Factors(TextTask):
    """Hypotheses are vectors of divisors; one is valid if its d_i divides the prompt's n_i and 1 < d_i < n_i.

    Divisors of different numbers are chosen freely, so a prompt has prod_i (tau(n_i) - 2) solutions, tau the number of
    divisors; the hypothesis space holds those of all prompts. A prompt is sampled from the seed as in ModeBench:
    different numbers, uniformly from those with two proper divisors or more, in ascending order. No two prompts have
    the same numbers; those with too few or too many solutions are left out.

    A compact answer holds the divisors; in text it is "<answer> 2 3 10 7 </answer>", with blanks or commas, in square
    brackets or without. Other vectors of as many numbers are outside the space; another length has no outcome.

    Attributes:
      numbers, smallest, largest: how many numbers are given, and their limits.
      problems: number of prompts.
      least_solutions, most_solutions: of every prompt. ModeBench has no upper limit; here all are enumerated.
      skip: how many problems are passed over first: with those of a training set, the others are held out.
      seed: of the sampled problems.

    Raises:
      ValueError: a field is out of range, or no prompt fits. At first use: too few do, or over 100,000 solutions.
    """

    numbers: int = between(1, 8, 4)
    smallest: int = between(SMALLEST, LARGEST, SMALLEST)
    largest: int = between(SMALLEST, LARGEST, 96)
    problems: int = between(1, LARGEST_SPACE, 64)
    least_solutions: int = between(1, LARGEST_SPACE, 16)
    most_solutions: int = between(1, LARGEST_SPACE, 128)
    skip: int = between(0, LARGEST_SPACE, 0)
    seed: int = between(0, 2**32 - 1, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = sorted(map(len, self._divisors.values()))
        fewest, most = math.prod(sizes[: self.numbers]), math.prod(sizes[-self.numbers :])
        if len(sizes) < self.numbers or max(fewest, self.least_solutions) > min(most, self.most_solutions):
            raise ValueError(
                f"no {self.numbers} numbers from {self.smallest} to {self.largest} have two proper divisors each and "
                f"{self.least_solutions} to {self.most_solutions} solutions together: choose wider limits"
            )

    @functools.cached_property
    def _divisors(self) -> dict[int, list[str]]:
        """The proper divisors of each number that may be given."""
        every = {n: [str(d) for d in range(2, n) if n % d == 0] for n in range(self.smallest, self.largest + 1)}
        return {n: divisors for n, divisors in every.items() if len(divisors) >= 2}

    @functools.cached_property
    def problem_table(self) -> dict[tuple[int, ...], list[Vector]]:
        """The numbers of each prompt -> its solutions."""
        problems = drawn_problems(self._draws(), self.problems, "problems", "fewer, or wider limits", self.skip)
        table, found = {}, set()
        for numbers, divisors in problems.items():
            table[numbers] = [*itertools.product(*divisors)]
            found.update(table[numbers])
            so_far = f"the first {len(table)} of {self.problems} problems have {len(found)} solutions"
            check_space(len(found), so_far, "choose fewer problems or a smaller most_solutions")
        return table

    def _draws(self) -> Iterator[tuple[tuple[int, ...], list[list[str]]] | None]:
        rng, candidates = random.Random(self.seed), tuple(self._divisors)
        while True:
            numbers = tuple(sorted(rng.sample(candidates, self.numbers)))
            divisors = [self._divisors[number] for number in numbers]
            is_wanted = self.least_solutions <= math.prod(map(len, divisors)) <= self.most_solutions
            yield (numbers, divisors) if is_wanted else None

    @functools.cached_property
    def answers(self) -> tuple[Vector, ...]:
        return tuple(sorted(set(itertools.chain.from_iterable(self.problem_table.values()))))

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(map(str, range(2, self.largest + 1)))

    def observation_symbols(self, problem: tuple[int, ...]) -> list[str]:
        return [*map(str, problem)]

    def read_symbols(self, symbols: Sequence[str]) -> Vector | None:
        return tuple(symbols) if len(symbols) == self.numbers else None

    def read_text(self, text: str) -> Vector | None:
        whole = " ".join(text.split())
        is_vector = _WHOLE.fullmatch(whole) and whole.startswith("[") == whole.endswith("]")
        return self.read_symbols(re.findall(_NUMBER, whole)) if is_vector else None

    def prompt_words(self, problem: tuple[int, ...], earlier: str) -> str:
        return f"""\
Give one divisor d, with 1 < d < n, of each of the numbers n = {", ".join(map(str, problem))}.
{earlier}
You may think first. Then write the divisors between these tags, for instance, for n = 6, 35:
<answer> 2 7 </answer>"""
