"""Countdown: reach a target from given numbers with + - * / and parentheses.

The task of TinyZero (github.com/Jiayi-Pan/TinyZero) and its data set Countdown-Tasks-3to4, with several solutions.
"""

import dataclasses
import functools
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ipsrl.checking.fields import between, one_of
from ipsrl.environments.listed_task import LARGEST_SPACE, NO_OUTCOME, check_space
from ipsrl.environments.reading import arithmetic, expressions
from ipsrl.environments.reading.expressions import OPERATORS, Form, Tree
from ipsrl.environments.tasks.countdown_solver import Solver
from ipsrl.environments.tasks.drawing import drawn_problems
from ipsrl.environments.text import TextTask

SMALLEST_TARGET = 10
DRAWS_FOR_A_PROBLEM = 200
"""The most samples of numbers, for each problem that is wanted: solving one takes long."""
ATTEMPTS = 100
"""The most samples that reasoning-gym takes from a seed until a target is in its range."""
VALUES_OF_TWO = 6
"""The most targets of two numbers: either, their sum, product, difference and quotient."""
TARGET = "="


class Puzzle(NamedTuple):
    """One prompt: numbers in ascending order, and the target."""

    numbers: tuple[int, ...]
    target: int


@dataclasses.dataclass(frozen=True)
class Countdown(TextTask):
    """Hypotheses are expressions; one is valid if it reaches the prompt's target with the prompt's numbers.

    Values are exact fractions: intermediate results may be fractional or negative. Each number is used exactly once, as
    in the verifier of the published task, or at most once if `use_all` is False.
    `ipsrl.environments.reading.expressions` defines which expressions are the same; outcomes are canonical forms. The
    hypothesis space holds all solutions of all prompts, found by exhaustive search.

    A prompt is sampled from the seed: the numbers uniformly from 1 .. `largest_number`, with replacement, then a target
    uniformly among those from 10 to `largest_target` with `least_solutions` solutions or more, if any; no prompt twice.

    With `source="reasoning_gym"` the problems are those of reasoning-gym's `countdown` with the same sizes and the
    seeds `seed`, `seed` + 1, ..., without those that have fewer solutions or repeat an earlier one. (Its own verifier
    evaluates an answer as code, takes 3! and 2**3 for the numbers 3 and 2, 3, and any value within 1e-5 of the target.)

    Compact answers are in Polish prefix notation ("* 8 - 5 2" is 8 * (5 - 2)) with one token for each number; compact
    prompts hold the numbers in ascending order, "=" and the target. In text: "<answer> 8 * (5 - 2) </answer>";
    docs/answers.md says what else is read. Every other expression is outside the hypothesis space, whatever its
    numbers; one that divides by zero has no outcome.

    Finding all solutions for one sample of numbers takes less than a millisecond for 3 numbers, 0.01 s for 4, 0.06 s
    for 5 and 0.24 s for 6. Where enough solutions are rare, more samples are needed; small numbers have many.

    Attributes:
      numbers: how many numbers are given, 2 to 6.
      problems: number of prompts.
      largest_number: upper limit of the given numbers.
      largest_target: 10 or more.
      least_solutions: of every prompt, 1 or more.
      use_all: whether every given number must be used.
      seed: of the sampled problems.
      source: `uniform`, as above, or `reasoning_gym`, whose targets are made of all numbers, whatever `use_all` is.

    Raises:
      ValueError: a field is out of range, or there cannot be so many problems. Also, when the problems are first used:
        too few problems have that many solutions, or there are more than 100,000 solutions in all.
    """

    numbers: int = between(2, 6, 4)
    problems: int = between(1, LARGEST_SPACE, 64)
    largest_number: int = between(2, 1000, 99)
    largest_target: int = between(SMALLEST_TARGET, 1000, 100)
    least_solutions: int = between(1, LARGEST_SPACE, 2)
    use_all: bool = True
    seed: int = between(0, 2**32 - 1, 0)
    source: str = one_of("uniform", "reasoning_gym", default="uniform")

    answer_marker = expressions.MARKER
    answer_line = expressions.LINE

    def __post_init__(self) -> None:
        super().__post_init__()
        given = math.comb(self.largest_number + self.numbers - 1, self.numbers)
        targets = self.largest_target - SMALLEST_TARGET + 1
        most = given * min(targets, VALUES_OF_TWO if self.numbers == 2 else targets)
        # With all numbers, an expression is the solution of one problem.
        most = min(most, LARGEST_SPACE // self.least_solutions) if self.use_all else most
        if self.problems > most:
            raise ValueError(
                f"{self.problems} problems with {self.numbers} numbers up to {self.largest_number} cannot differ and "
                f"have at most {LARGEST_SPACE} solutions together: choose at most {most}"
            )

    @functools.cached_property
    def problem_table(self) -> dict[Puzzle, frozenset[Form]]:
        """Each problem -> all of its solutions in canonical form."""
        return drawn_problems(
            self._draws(),
            self.problems,
            f"problems with {self.numbers} numbers up to {self.largest_number} and {self.least_solutions} solutions or "
            "more",
            "fewer problems, a smaller least_solutions or more numbers",
        )

    def _draws(self) -> Iterator[tuple[Puzzle, frozenset[Form]] | None]:
        drawn: set[Puzzle] = set()
        found: set[Form] = set()
        # Numbers of which no further problem can be made.
        exhausted: set[tuple[int, ...]] = set()
        given = math.comb(self.largest_number + self.numbers - 1, self.numbers)
        for numbers, targets in itertools.islice(self._samples(), DRAWS_FOR_A_PROBLEM * self.problems):
            if numbers in exhausted:
                yield None
                continue
            solver = Solver(numbers, self.use_all)
            new = (puzzle for target in targets if (puzzle := Puzzle(numbers, target)) not in drawn)
            puzzle = next((each for each in new if len(solver.solutions(each.target)) >= self.least_solutions), None)
            if puzzle is not None:
                solutions = solver.solutions(puzzle.target)
                drawn.add(puzzle)
                found.update(solutions)
                so_far = f"the first {len(drawn)} of {self.problems} problems have {len(found)} solutions"
                check_space(len(found), so_far, "choose fewer problems or numbers, or a larger largest_number")
                yield puzzle, solutions
                continue
            yield None
            if self.source == "uniform":
                exhausted.add(numbers)
            if len(exhausted) == given:
                return

    def _samples(self) -> Iterator[tuple[tuple[int, ...], list[int]]]:
        """Numbers, and the targets that they may get, in the order in which they are tried."""
        rng = random.Random(self.seed)
        for seed in itertools.count(self.seed):
            if self.source == "reasoning_gym":
                yield problem_of_seed(seed, self.numbers, self.largest_number, self.largest_target)
            else:
                numbers = tuple(sorted(rng.randint(1, self.largest_number) for _ in range(self.numbers)))
                every = range(SMALLEST_TARGET, self.largest_target + 1)
                yield numbers, rng.sample(every, len(every))

    @property
    def longest_answer(self) -> int:
        return 2 * self.numbers - 1

    @functools.cached_property
    def symbols(self) -> tuple[str, ...]:
        return (*OPERATORS, TARGET, *map(str, range(1, max(self.largest_number, self.largest_target) + 1)))

    @property
    def planning_symbols(self) -> tuple[str, ...]:
        """The operators: they determine the shape of the tree, whose leaves are numbers."""
        return OPERATORS

    @functools.cached_property
    def answers(self) -> tuple[Form, ...]:
        """The canonical forms: those with few words first."""
        return tuple(sorted(set().union(*self.problem_table.values()), key=_length_and_text))

    def name(self, answer: Form) -> str:
        return expressions.infix(expressions.as_tree(answer))

    def observation_symbols(self, problem: Puzzle) -> list[str]:
        return [*map(str, problem.numbers), TARGET, str(problem.target)]

    def spell(self, answer: Form, rng: np.random.Generator | None) -> list[str]:
        return expressions.prefix(_tree(answer, rng))

    def read_symbols(self, symbols: Sequence[str]) -> Tree | None:
        return expressions.read_prefix(symbols)

    # Its reader then needs only the standard library, so processes that read answers do not import this module.
    read_text = staticmethod(expressions.read_expression)

    def outcome(self, answer: Tree) -> int:
        form = expressions.canonical(answer)
        if form in self._id_of:
            return self._id_of[form]
        return NO_OUTCOME if arithmetic.value(answer) is None else self.outside(repr(form))

    def answer_words(self, answer: Form, rng: np.random.Generator | None) -> str:
        return f"<answer> {expressions.infix(_tree(answer, rng))} </answer>"

    def prompt_words(self, problem: Puzzle, earlier: str) -> str:
        use = "exactly once" if self.use_all else "at most once"
        return f"""\
Write an expression that equals {problem.target}. Use each of the numbers {list(problem.numbers)} {use}, no other \
number, and only the operators +, -, *, / and parentheses.
{earlier}
Changing the order or the grouping of sums and products does not make an expression a different one. Among the \
expressions that reach the target, look for one that was not given before.

You may think first. Then write the expression, without an equals sign, between these tags, for instance:
<answer> (1 + 2) / 3 </answer>"""


def problem_of_seed(seed: int, count: int, largest_number: int, largest_target: int) -> tuple[tuple[int, ...], list]:
    """The numbers, in ascending order, that reasoning-gym 0.1.25 makes of a seed, and the target, or none if it fails.

    Problem i of its data set has the seed `seed` + i. The target is the value of the numbers joined from left to right
    by random operators; a division that would leave a remainder becomes one by a later number, or else a difference.
    """
    rng = random.Random(seed)
    # Theirs draws how many numbers there are, also where there is but one to draw.
    rng.randint(count, count)
    for _ in range(ATTEMPTS):
        numbers = [rng.randint(1, largest_number) for _ in range(count)]
        value = numbers[0]
        for place in range(1, count):
            operator = rng.choice(OPERATORS)
            if operator == "/":
                divisors = numbers[place:]
                rng.shuffle(divisors)
                divisor = next((divisor for divisor in divisors if value % divisor == 0), None)
                if divisor is None:
                    operator = "-"
                else:
                    numbers[place] = divisor
            number = numbers[place]
            if operator == "*":
                value *= number
            elif operator == "/":
                value //= number
            else:
                value += number if operator == "+" else -number
        if SMALLEST_TARGET <= value <= largest_target:
            return tuple(sorted(numbers)), [value]
    return tuple(sorted(numbers)), []


def _tree(form: Form, rng: np.random.Generator | None) -> Tree:
    shuffler = None if rng is None else random.Random(int(rng.integers(2**63)))
    return expressions.as_tree(form, shuffler)


def _length_and_text(form: Form) -> tuple[int, str]:
    tree = expressions.as_tree(form)
    return len(expressions.prefix(tree)), expressions.infix(tree)
