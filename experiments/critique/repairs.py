"""Second attempts and critiques of a known kind, to teach a prior to repair its mistakes, or to name them.

`StoredGroups.of(task, policy, prompts_per_step, repairs.rows(task))` is a source for the objective `supervised`. All
rewards of the rows are 1.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from ipsrl.environments import critiques
from ipsrl.environments.listed_task import NO_OUTCOME
from ipsrl.environments.tasks.addition import Addition
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.text import STOP

CRITICS = {
    "first_mistake": critiques.first_mistake,
    "right_or_wrong": critiques.right_or_wrong,
    "true_answer": lambda task, prompt, attempt: critiques.true_answer(task, prompt),
}


@dataclasses.dataclass(frozen=True)
class Repairs:
    """Attempts at `Addition` or `Countdown` with a critic's words, and the right answers that a policy could learn to
    give then.

    A right answer, a random hypothesis in a random form, is copied with slips: one digit, and each other one with
    probability `slip`, becomes another digit; in `Countdown` so do operators, words in `Addition`, and numbers up to
    the largest that can be given. A copy that is right all the same is made again.

    Attributes:
      critic: one of `CRITICS`, see `ipsrl.environments.critiques`.
      slip: a probability.
      right: share of attempts that have no slip; a policy that learns to be its own critic must see some.
      attempts: at each prompt.
      seed: 0 or more.
    """

    critic: str = "first_mistake"
    slip: float = 0.1
    right: float = 0.0
    attempts: int = 16
    seed: int = 0

    def rows(self, task: Addition | Countdown) -> list[dict[str, Any]]:
        """Second attempts: the prompt quotes an attempt and the critic's words, the answer is what was copied."""
        return [
            row_of(prompt, [attempt, words], answer, task.parse(answer))
            for prompt, answer, attempt, words in self._criticised(task)
        ]

    def critique_rows(self, task: Addition | Countdown) -> list[dict[str, Any]]:
        """Critiques of the same attempts, for `own`: the critic's words are the answer, as `prompts_for_critique` asks
        for them.
        """
        return [
            row_of(prompt, [attempt, []], [*words, STOP], NO_OUTCOME)
            for prompt, _, attempt, words in self._criticised(task)
        ]

    def _criticised(
        self, task: Addition | Countdown
    ) -> Iterator[tuple[int, list[int], list[int], list[int]]]:
        """Prompt, right answer, attempt and words."""
        rng = np.random.default_rng(self.seed)
        slips = critiques.criticism_of(task).slips(task)
        kinds = [[task.vocabulary.index(symbol) for symbol in kind] for kind in slips]
        kind_of = {token: kind for kind in kinds for token in kind}
        for prompt in np.arange(task.num_prompts).repeat(self.attempts).tolist():
            answer = task.render(int(rng.choice(np.flatnonzero(task.admissible[prompt]))), rng)
            attempt = answer
            if rng.random() >= self.right:
                while critiques.is_right(task, prompt, task.parse(attempt)):
                    attempt = self._copied(answer, kind_of, rng)
            yield prompt, answer, attempt, CRITICS[self.critic](task, prompt, attempt)

    def _copied(
        self, answer: list[int], kind_of: dict[int, list[int]], rng: np.random.Generator
    ) -> list[int]:
        places = [place for place, token in enumerate(answer) if token in kind_of]
        certain = rng.choice(places)
        attempt = list(answer)
        for place in places:
            if place == certain or rng.random() < self.slip:
                right = answer[place]
                attempt[place] = int(
                    rng.choice([other for other in kind_of[right] if other != right])
                )
        return attempt


def row_of(
    prompt: int, history: list[list[int]], answer: list[int], outcome: int
) -> dict[str, Any]:
    """A row of one answer for `StoredGroups`."""
    return {
        "prompt": prompt,
        "history": history,
        "answers": [answer],
        "rewards": [1.0],
        "outcomes": [outcome],
    }
