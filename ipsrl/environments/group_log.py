"""Groups of answers that any trainer has logged: as arrays, and as a bandit at each prompt.

A log is a file of JSON lines, one for each answer:

    {"prompt": "1 + 1 =", "completion": "It is 2.", "reward": 1.0, "outcome": "2", "step": 0}

Answers with the same prompt, `step` and `group` are a group; without `step` and `group` all answers to a prompt are.
Where a prompt came several times in a step, `group` tells its groups apart: any JSON value, such as a number. Without
it they are seen only if other prompts came once: then all are cut, in their order, into groups of the smallest number
of answers. The outcome may be any JSON value, null and NaN are no valid outcome; where a line has none, the outcome is
the completion. A prompt may be a list of messages. Other columns are not read.
"""

import dataclasses
import functools
import json
import math
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.regular_files import open_regular
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.rewards import ALLOWED, LARGEST

SUFFIX = ".jsonl"
MOST_PROMPTS = 32
"""Prompts of the bandit: of a longer log evenly spaced ones."""


@dataclasses.dataclass(frozen=True)
class LoggedOutcomes(Bandit):
    """A bandit whose arms at a prompt are the outcomes that were logged there; rewards are their mean rewards.

    Prompts differ in how many outcomes they have, so the last arms of some prompts are none: illegal, without reward.

    Attributes:
      counts: how often each arm was logged, a tuple for each prompt.
    """

    counts: tuple[tuple[int, ...], ...] = ((1, 1),)

    def legal(self, state: Array) -> Array:
        logged = jnp.asarray(self.counts) > 0
        # States after the first ones are ends, from which no walk goes on.
        return logged[jnp.minimum(state, self.num_prompts - 1)]

    @property
    def logged_logits(self) -> tuple[tuple[float, ...], ...]:
        """Logits of the policy that gives the arms the shares in which they were logged."""
        return tuple(tuple(math.log(max(count, 1)) for count in of_prompt) for of_prompt in self.counts)


@dataclasses.dataclass(frozen=True, eq=False)
class GroupLog:
    """N groups of G answers.

    Attributes:
      prompts: `[N]`, the prompt of each group.
      rewards: `[N, G]` float32.
      outcome_id: `[N, G]` int32, equal at a prompt where outcomes are; -1 is no valid outcome.
    """

    prompts: tuple[str, ...]
    rewards: np.ndarray
    outcome_id: np.ndarray

    @classmethod
    def read(cls, path: str | Path) -> "GroupLog":
        """Reads a file of JSON lines, as this module describes them.

        Raises:
          ValueError: there is no such file, it is empty, a line is not an answer, or groups differ in size.
        """
        groups: dict[tuple[str, Any], list[tuple[float, int]]] = {}
        numbers: dict[tuple[str, str], int] = {}
        try:
            with open_regular(path, "r", encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        prompt, step, reward, outcome = _answer(line, f"line {number} of {path}")
                        outcome_id = -1 if outcome is None else numbers.setdefault((prompt, outcome), len(numbers))
                        groups.setdefault((prompt, step), []).append((reward, outcome_id))
        except OSError as error:
            raise ValueError(f"cannot read the log of groups {path}: {error.strerror}") from error
        if not groups:
            raise ValueError(f"{path} has no answers: write one JSON object for each, {EXAMPLE}")
        sizes = set(map(len, groups.values()))
        size = min(sizes)
        if len(sizes) > 1 and (size == 1 or any(number % size for number in sizes)):
            raise ValueError(
                f"the groups of {path} have {size} to {max(sizes)} answers: they must all have the same number; "
                "'step' and 'group' tell groups of the same prompt apart"
            )
        prompts = [prompt for (prompt, _), answers in groups.items() for _ in range(len(answers) // size)]
        answers = np.array([answer for answers in groups.values() for answer in answers]).reshape(-1, size, 2)
        rewards, outcome_id = np.moveaxis(answers, -1, 0)
        return cls(tuple(prompts), rewards.astype(np.float32), outcome_id.astype(np.int32))

    @functools.cached_property
    def prompt_index(self) -> np.ndarray:
        """`[N]` int32, a number for each prompt."""
        numbers = {prompt: number for number, prompt in enumerate(dict.fromkeys(self.prompts))}
        return np.array([numbers[prompt] for prompt in self.prompts], np.int32)

    @functools.cached_property
    def num_prompts(self) -> int:
        return len(set(self.prompts))

    @functools.cached_property
    def with_a_choice(self) -> list[list[tuple[int, float]]]:
        """Count and mean reward of each outcome at the prompts where training can change something: those that have two
        outcomes or more, one of them rewarded. The answers without a valid outcome are one outcome.
        """
        found = []
        for prompt in range(self.num_prompts):
            here = self.prompt_index == prompt
            ids, place, counts = np.unique(self.outcome_id[here], return_inverse=True, return_counts=True)
            sums = np.bincount(place.ravel(), self.rewards[here].ravel())
            if len(ids) > 1 and sums.max() > 0:
                found.append(list(zip(counts.tolist(), (sums / counts).tolist(), strict=True)))
        return found

    def bandit(self) -> LoggedOutcomes:
        """A bandit of up to `MOST_PROMPTS` of the prompts `with_a_choice`.

        Raises:
          ValueError: there is no such prompt, or a reward is negative.
        """
        if self.rewards.min() < 0:
            raise ValueError(f"a reward of the log is {self.rewards.min():g}: shift rewards so that the worst is 0")
        choices = self.with_a_choice
        if not choices:
            raise ValueError(
                "no prompt of the log has two outcomes and a positive reward, so there is nothing to gain or to lose"
            )
        places = np.linspace(0, len(choices) - 1, min(len(choices), MOST_PROMPTS)).round().astype(int)
        arms = max(len(choices[place]) for place in places)
        padded = [choices[place] + [(0, 0.0)] * (arms - len(choices[place])) for place in places]
        counts, rewards = np.moveaxis(np.array(padded), -1, 0)
        return LoggedOutcomes.of_table(rewards, counts=tuple(map(tuple, counts.astype(int).tolist())))


EXAMPLE = '{"prompt": "1 + 1 =", "completion": "2", "reward": 1.0, "outcome": "2"}'


def _answer(line: str, where: str) -> tuple[str, Any, float, str | None]:
    """Prompt, step and group, reward and outcome of a line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not valid JSON ({error}): write one object for each answer, {EXAMPLE}") from error
    if not isinstance(row, dict):
        raise ValueError(f"{where} is not an object: write one for each answer, {EXAMPLE}")
    wanted = ("prompt", "reward") if "outcome" in row else ("prompt", "reward", "completion")
    if missing := [name for name in wanted if name not in row]:
        raise ValueError(f"{where} has no {missing[0]!r}: write objects such as {EXAMPLE}")
    reward = row["reward"]
    # An integer of JSON may have any number of digits.
    if type(reward) not in (int, float, bool) or abs(reward) > LARGEST or not ALLOWED.holds(np.float64(reward)):
        raise ValueError(f"{where} has the reward {reward!r:.60}: it must be a number, and {ALLOWED.phrase}")
    outcome = row.get("outcome", row.get("completion"))
    place = row.get("step"), row.get("group")
    texts = [json.dumps(value, sort_keys=True) for value in (row["prompt"], place, outcome)]
    # A table of pandas has NaN where it has nothing.
    return texts[0], texts[1], float(reward), None if outcome is None or outcome != outcome else texts[2]
