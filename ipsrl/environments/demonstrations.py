"""Answers with mistakes of a known kind and frequency, to teach a prior that makes them.

`StoredGroups.of(task, policy, prompts_per_step, mistakes.rows(task))` is a source for the objective `supervised`. All
rewards of the rows are 1: the objective weighs answers by them, and mistakes are to be imitated as well. Their outcomes
are the true ones.
"""

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np

from ipsrl.checking.arguments import accepted
from ipsrl.checking.fields import Checked, at_least, between, positive, probability
from ipsrl.environments.tasks.addition_modes import AdditionModes, columns
from ipsrl.environments.tasks.graph_search import START_TOKEN, SWITCH_TOKEN, GraphSearch
from ipsrl.environments.tasks.plan_and_execute import PLANS, PlanAndExecute
from ipsrl.environments.text import STOP, TextTask


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demonstrations(abc.ABC, Checked):
    """Answers to every prompt of a task, mistakes included.

    Attributes:
      answers: to each prompt.
      seed: 0 or more.
    """

    answers: int = positive(16)
    seed: int = at_least(0, 0)

    task_type: ClassVar[type[TextTask]]

    def rows(self, task: Any) -> list[dict[str, Any]]:
        """For each prompt `{"prompt": number, "answers": tokens, "rewards": ones, "outcomes": ids}`.

        Raises:
          ValueError: these mistakes are made in another task.
        """
        accepted("task", task, self.task_type)
        return [
            {
                "prompt": prompt,
                "answers": group,
                "rewards": [1.0] * len(group),
                "outcomes": [task.parse(answer) for answer in group],
            }
            for prompt, group in enumerate(self._tokens(task, np.random.default_rng(self.seed)))
        ]

    @abc.abstractmethod
    def _tokens(self, task: Any, rng: np.random.Generator) -> list[list[list[int]]]:
        """The tokens of the answers to each prompt."""


@dataclasses.dataclass(frozen=True)
class PlanMistakes(Demonstrations):
    """Answers to `PlanAndExecute` with wrong plans and with slips.

    A plan fits with probability `right_plans`. Among those that do, or do not, plan number i of `PLANS`, from 1, is
    taken with a weight of i^-favour: at random, or with the same favourites at every prompt. Each digit slips with
    probability 1 - right_execution^(1 / length), to a random other digit, independently of everything else: so an
    answer has no slip with probability `right_execution`, whatever its plan, and a policy can learn to slip as often.

    Attributes:
      right_plans, right_execution: probabilities. A random plan fits with `fitting` / 6.
      favour: 0 to 16.
      the others: as in `Demonstrations`.

    Raises:
      ValueError: a field is out of range.
    """

    right_plans: float = probability(0.3)
    right_execution: float = probability(0.6)
    favour: float = between(0, 16, 0.0)

    task_type: ClassVar[type[TextTask]] = PlanAndExecute

    def _tokens(self, task: PlanAndExecute, rng: np.random.Generator) -> list[list[list[int]]]:
        shape = (task.num_prompts, self.answers)
        wanted = task.fits[:, None] == (rng.random(shape) < self.right_plans)[..., None]
        # The largest u^(1 / weight) of uniform u is taken with a probability in proportion to its weight.
        powers = (1.0 + np.arange(len(PLANS))) ** self.favour
        plan = np.where(wanted, rng.random(wanted.shape) ** powers, -1).argmax(axis=-1)
        tokens = task.executions[np.arange(task.num_prompts)[:, None], plan]
        digits, zero = tokens[..., 1:-1], task.vocabulary.index("0")
        slips = rng.random(digits.shape) < 1 - self.right_execution ** (1 / task.length)
        shifts = np.where(slips, rng.integers(1, 10, digits.shape), 0)
        tokens[..., 1:-1] = zero + (digits - zero + shifts) % 10
        return tokens.tolist()


@dataclasses.dataclass(frozen=True)
class EarlySwitches(Demonstrations):
    """Searches for `GraphSearch` that switch too early.

    A search tries the branches in the order of the alphabet, one thought each. In a branch that leads nowhere it walks
    at random to a dead end, and switches. In one that leads to the goal it follows a random path there, and ends. But
    with probability `early` it cuts the first such path: after 1 to depth - 1 of its vertices it switches to the next
    branch, and never comes back. There always is a next one, because a branch before the last leads to the goal. If
    none of them leads there, the search ends at a dead end: wrong, and all wrong searches are cut ones.

    Attributes:
      early: a probability; 0.5 corrupts half of the searches.
      the others: as in `Demonstrations`.

    Raises:
      ValueError: a field is out of range.
    """

    early: float = probability(0.5)

    task_type: ClassVar[type[TextTask]] = GraphSearch

    def _tokens(self, task: GraphSearch, rng: np.random.Generator) -> list[list[list[int]]]:
        return [
            [_written(_search(task, prompt, bool(rng.random() < self.early), rng)) for _ in range(self.answers)]
            for prompt in range(task.num_prompts)
        ]


@dataclasses.dataclass(frozen=True)
class ModeMistakes(Demonstrations):
    """Answers to `AdditionModes` in both modes, of which the short ones are mostly wrong.

    An answer thinks with probability `thinking`. Each of the steps that make up a prompt's difficulty, its columns and
    its carries, goes right with the probability of the mode, independently: so an answer is right with that
    probability to the power of the difficulty. A wrong one has a random other digit in a random column; in a thinking
    answer the work has the same slip, and the number agrees with the work.

    Attributes:
      thinking, right_thinking, right_short: probabilities. The defaults give right answers with 0.98 and 0.7 to the
        easiest prompts, and to those of difficulty 4 with 0.92 and 0.24.
      the others: as in `Demonstrations`.

    Raises:
      ValueError: a field is out of range.
    """

    thinking: float = probability(0.5)
    right_thinking: float = probability(0.98)
    right_short: float = probability(0.7)

    task_type: ClassVar[type[TextTask]] = AdditionModes

    def _tokens(self, task: AdditionModes, rng: np.random.Generator) -> list[list[list[int]]]:
        return [[self._answer(task, prompt, rng) for _ in range(self.answers)] for prompt in range(task.num_prompts)]

    def _answer(self, task: AdditionModes, prompt: int, rng: np.random.Generator) -> list[int]:
        thinks, work = bool(rng.random() < self.thinking), columns(*task.summands[prompt])
        right = (self.right_thinking if thinks else self.right_short) ** float(task.difficulty[prompt])
        if rng.random() >= right:
            place = int(rng.integers(len(work)))
            carry, digit = work[place]
            work[place] = carry, (digit + int(rng.integers(1, 10))) % 10
        number = int("".join(str(digit) for digit in (work[-1][0], *(digit for _, digit in work[::-1]))))
        symbols = task.answer(work if thinks else None, number)
        return [*map(task.vocabulary.index, symbols), STOP]


def _written(search: list[list[int]]) -> list[int]:
    tokens = [token for walk in search for token in (SWITCH_TOKEN, *(START_TOKEN + vertex for vertex in walk))]
    return [*tokens[1:], STOP]


def _search(task: GraphSearch, prompt: int, cut: bool, rng: np.random.Generator) -> list[list[int]]:
    thoughts = []
    for branch in range(1, task.branches + 1):
        paths = task.walks[task.admissible[prompt] & (task.walks[:, 0] == branch)]
        if not len(paths):
            thoughts.append(_dead_end(task.graphs[prompt], branch, rng))
            continue
        path = rng.choice(paths).tolist()
        if not cut:
            return [*thoughts, path]
        thoughts.append(path[: rng.integers(1, task.depth)])
        cut = False
    return thoughts


def _dead_end(graph: np.ndarray, branch: int, rng: np.random.Generator) -> list[int]:
    walk = [branch]
    while len(heads := np.flatnonzero(graph[walk[-1]])):
        walk.append(int(rng.choice(heads)))
    return walk
