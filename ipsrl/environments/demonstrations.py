"""Answers with mistakes of a known kind and frequency, to teach a prior that makes them.

`StoredGroups.of(task, policy, prompts_per_step, mistakes.rows(task))` is a source for the objective `supervised`. All
rewards are 1, because the objective weighs answers by them and imitates mistakes as well; outcomes are the true ones.
"""

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np

from ipsrl.checking.arguments import accepted
from ipsrl.checking.fields import Checked, at_least, positive
from ipsrl.environments.text import TextTask


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
        """A row for each prompt, `{"prompt": number, "answers": tokens, "rewards": ones, "outcomes": ids}`.

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
