"""Additions in both modes with mistakes, to teach a prior whose short answers are mostly wrong."""

import dataclasses
from typing import ClassVar

import numpy as np

from ipsrl.checking.fields import probability
from ipsrl.environments.demonstrations import Demonstrations
from ipsrl.environments.tasks.addition_modes import AdditionModes, columns
from ipsrl.environments.text import STOP, TextTask


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
        return [
            [self._answer(task, prompt, rng) for _ in range(self.answers)]
            for prompt in range(task.num_prompts)
        ]

    def _answer(self, task: AdditionModes, prompt: int, rng: np.random.Generator) -> list[int]:
        thinks, work = bool(rng.random() < self.thinking), columns(*task.summands[prompt])
        right = (self.right_thinking if thinks else self.right_short) ** float(
            task.difficulty[prompt]
        )
        if rng.random() >= right:
            place = int(rng.integers(len(work)))
            carry, digit = work[place]
            work[place] = carry, (digit + int(rng.integers(1, 10))) % 10
        number = int(
            "".join(str(digit) for digit in (work[-1][0], *(digit for _, digit in work[::-1])))
        )
        symbols = task.answer(work if thinks else None, number)
        return [*map(task.vocabulary.index, symbols), STOP]
