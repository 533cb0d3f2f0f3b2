"""Plan, then execute: one token chooses a procedure that must reach a goal, and the others carry it out."""

import dataclasses
import functools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import between
from ipsrl.environments.tasks.drawing import drawn_problems
from ipsrl.environments.text import TextTask

Digits = tuple[int, ...]
# The digits of a prompt and its goal.
Problem = tuple[Digits, int]
# A plan, and the digits of a result as text.
Execution = tuple[str, ...]
GOAL = "->"
PROCEDURES: dict[str, Callable[[Digits], Digits]] = {
    "copy": lambda digits: digits,
    "reverse": lambda digits: digits[::-1],
    "halves": lambda digits: digits[len(digits) // 2 :] + digits[: len(digits) // 2],
    "neighbours": lambda digits: tuple(x for i in range(0, len(digits), 2) for x in digits[i : i + 2][::-1]),
    "complement": lambda digits: tuple(9 - x for x in digits),
    "increment": lambda digits: tuple((x + 1) % 10 for x in digits),
}
"""Plan -> what it makes of a list of digits. No plan makes the same of two lists."""
PLANS = tuple(PROCEDURES)
MOST_PROBLEMS = 1024
# Of these, all plans make different lists.
EXAMPLE = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8)
_ANSWER = re.compile(r"([a-z]+) ?:? ?([0-9](?:[ ,]*[0-9])*)")


@dataclasses.dataclass(frozen=True)
class PlanAndExecute(TextTask):
    """Hypotheses are plans carried out; one is valid if the plan fits the prompt and was carried out on its digits.

    A prompt is a list of digits and a goal, the digit that the result must begin with. A plan fits if its result
    does; of the six plans exactly `fitting` do, and each is a right outcome. Of 3 1 4 1 5 9 2 6 they make

        copy 3 1 4 1 5 9 2 6,  reverse 6 2 9 5 1 4 1 3,  halves 5 9 2 6 3 1 4 1,  neighbours 1 3 1 4 9 5 6 2,
        complement 6 8 5 8 4 0 7 3,  increment 4 2 5 2 6 0 3 7

    and if the goal is 6, reverse and complement fit. Outcome 6 i + p is plan p carried out on the list of prompt i:
    wrong plans carried out right are hypotheses too. Answers with slips have outcomes outside the hypothesis space,
    unless they are right for another list. A plan that does not exist, or another number of digits, has no outcome.

    Compact answers are the plan, the only planning token, and one token for each digit. In text, between answer tags:
    "reverse: 6 2 9 5 1 4 1 3", with or without capitals, the colon, blanks and commas.

    `probabilities` tells the two ways to fail apart, exactly, in the distribution of a policy.

    Source: the experiment that arXiv 2509.03646 (HICRA) needs; the language is ours.

    Attributes:
      length: number of digits, 4 to 12.
      fitting: number of plans that fit each prompt, 1 to 4.
      problems: number of prompts, at most 1024; no two have the same digits.
      seed: of the problems.

    Raises:
      ValueError: a field is out of range. Also, when problems are first used: too few lists have so many fitting plans.
    """

    length: int = between(4, 12, 8)
    fitting: int = between(1, 4, 2)
    problems: int = between(1, MOST_PROBLEMS, 64)
    seed: int = between(0, 2**32 - 1, 0)

    symbols: ClassVar[tuple[str, ...]] = (*PLANS, GOAL, *"0123456789")
    planning_symbols: ClassVar[tuple[str, ...]] = PLANS
    reads_quickly: ClassVar[bool] = True

    @functools.cached_property
    def problem_table(self) -> dict[Problem, list[Execution]]:
        """The digits and the goal of each prompt -> the plans that fit, carried out. No two have the same digits."""
        what = f"lists of {self.length} digits that {self.fitting} plans fit"
        choose = "fewer problems, a smaller fitting or a larger length"
        lists = drawn_problems(self._draws(), self.problems, what, choose)
        return {
            (digits, goal): [each for each in _executions(digits) if each[1] == str(goal)]
            for digits, goal in lists.items()
        }

    def _draws(self) -> Iterator[tuple[Digits, int] | None]:
        rng = random.Random(self.seed)
        while True:
            digits = tuple(rng.choices(range(10), k=self.length))
            begins = [carry_out(plan, digits)[0] for plan in PLANS]
            goal = rng.choice(begins)
            yield (digits, goal) if begins.count(goal) == self.fitting else None

    @functools.cached_property
    def answers(self) -> tuple[Execution, ...]:
        return tuple(each for digits, _ in self.asked for each in _executions(digits))

    def name(self, answer: Execution) -> str:
        plan, *digits = answer
        return f"{plan}: {' '.join(digits)}"

    @functools.cached_property
    def fits(self) -> np.ndarray:
        """`[num_prompts, 6]` bool, which plans fit."""
        return self.admissible.reshape(self.problems, self.problems, len(PLANS)).diagonal().T

    @functools.cached_property
    def executions(self) -> np.ndarray:
        """`[num_prompts, 6, length + 2]` int32, the tokens of each plan carried out on each prompt, and stop tokens."""
        answers = [self.render(hypothesis) for hypothesis in range(self.num_hypotheses)]
        return np.array(answers, np.int32).reshape(self.problems, len(PLANS), self.length + 2)

    def observation_symbols(self, problem: Problem) -> list[str]:
        digits, goal = problem
        return [*map(str, digits), GOAL, str(goal)]

    def read_symbols(self, symbols: Sequence[str]) -> Execution | None:
        plan, digits = "".join(symbols[:1]), symbols[1:]
        is_answer = plan in PROCEDURES and len(digits) == self.length and all(digit.isdecimal() for digit in digits)
        return tuple(symbols) if is_answer else None

    def read_text(self, text: str) -> Execution | None:
        found = _ANSWER.fullmatch(" ".join(text.lower().split()))
        return self.read_symbols([found[1], *re.sub("[ ,]", "", found[2])]) if found else None

    def prompt_words(self, problem: Problem, earlier: str) -> str:
        digits, goal = problem
        example = EXAMPLE[: self.length]
        executions = [self.name(each) for each in _executions(example)]
        ways = "\n".join(executions)
        return f"""\
Choose a procedure that turns these digits into a list that begins with {goal}, and carry it out:
{" ".join(map(str, digits))}

There are six procedures. Of the digits {" ".join(map(str, example))}, as an example, they make:
{ways}
{earlier}
You may think first. Then write the procedure and all digits of its result between these tags, for instance:
<answer> {executions[PLANS.index("reverse")]} </answer>"""

    @checked
    def probabilities(self, log_probs: np.ndarray) -> dict[str, np.ndarray]:
        """The probability of each failure under a policy, exact, without sampling; each `[num_prompts]`, float64.

            right_plan                sum of p(plan) over the fitting plans
            execution_of_right_plans  sum of p(plan) p(execution | plan) over them / right_plan
            execution_of_wrong_plans  the same for the others

        The product of the first two is the expected reward. A policy that never chooses a plan still has a
        probability to carry it out, so nothing here is undefined.

        Args:
          log_probs: `[num_prompts, 6, length + 2]`, finite, of each token of `executions`, given those before it.

        Raises:
          ValueError: `log_probs` has another shape.
        """
        if log_probs.shape != self.executions.shape:
            raise ValueError(f"log_probs has the shape {log_probs.shape}, it must be {self.executions.shape}")
        plans, executed = log_probs[..., 0].astype(float), np.exp(log_probs[..., 1:].sum(axis=-1, dtype=float))
        values = {"right_plan": np.where(self.fits, np.exp(plans), 0).sum(axis=-1)}
        for name, chosen in (("right", self.fits), ("wrong", ~self.fits)):
            plans_of_kind = np.where(chosen, plans, -np.inf)
            shares = np.exp(plans_of_kind - plans_of_kind.max(axis=-1, keepdims=True))
            values[f"execution_of_{name}_plans"] = (shares * executed).sum(axis=-1) / shares.sum(axis=-1)
        return values


def carry_out(plan: str, digits: Digits) -> Digits:
    """The result of a plan for a list of digits, each 0 to 9.

    Raises:
      ValueError: there is no such plan.
    """
    if plan not in PROCEDURES:
        raise ValueError(f"plan is {plan!r}, it must be one of {', '.join(PLANS)}")
    return PROCEDURES[plan](digits)


def _executions(digits: Digits) -> list[Execution]:
    """All plans, carried out on the same digits."""
    return [(plan, *map(str, carry_out(plan, digits))) for plan in PLANS]
