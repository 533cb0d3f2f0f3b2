"""Shared parts of the GRPO trainers here: prompts as text, rewards, and their descriptions."""

import argparse
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import workloads
from benchmarks.workloads import WORKLOADS, Batch, Workload

STEPS = 10**6
"""More steps than any benchmark uses."""


def texts(batch: Batch) -> list[str]:
    """The prompts, as numbers separated by blanks."""
    return [" ".join(map(str, prompt)) for prompt in batch.prompt_tokens()]


class Rewards:
    """Rewards answers, and collects the report of a step.

    Attributes:
      report: the number of sampled tokens and the mean reward since the last report.
    """

    def __init__(self, batch: Batch):
        self._batch = batch
        self.report: dict[str, Any] = {}

    def __call__(self, completions: Sequence[Sequence[int]]) -> list[float]:
        """The reward of each answer.

        Raises:
          ValueError: there are fewer or more answers than a step has, or one is shorter or longer than it should be.
        """
        expected = self._batch.prompts * self._batch.group_size
        if len(completions) != expected:
            raise ValueError(f"a step samples {len(completions)} answers, but the workload has {expected}")
        lengths = sorted({len(completion) for completion in completions})
        if lengths != [self._batch.completion_length]:
            raise ValueError(
                f"answers have {lengths} tokens, but the workload has {self._batch.completion_length}: "
                "some were cut or ended early"
            )
        rewards = [workloads.reward(completion) for completion in completions]
        self.report = {"reward": sum(rewards) / len(rewards), "tokens": sum(map(len, completions))}
        return rewards


def description(
    name: str, packages: Sequence[str], batch: Batch, parameters: int, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A contender's description of itself."""
    return {
        "name": name,
        "versions": {package: importlib.metadata.version(package) for package in packages},
        "parameters": parameters,
        "tokens_per_step": batch.tokens,
        "settings": dict(settings),
    }


def settings(
    text: str,
    choices: Mapping[str, Sequence[str]],
    numbers: Sequence[str],
    best: Mapping[str, Mapping[str, Any]],
) -> tuple[Workload, dict[str, Any]]:
    """The workload and the settings of the command line.

    Args:
      text: for --help.
      choices: settings with a fixed set of words, each with a flag.
      numbers: settings that are integers, each with a flag.
      best: for each workload, the settings without flags.
    """
    flags = parser(text, choices, numbers)
    flags.add_argument("--workload", choices=best, required=True)
    arguments = vars(flags.parse_args())
    name = arguments.pop("workload")
    return WORKLOADS[name], best[name] | {key: value for key, value in arguments.items() if value is not None}


def parser(text: str, choices: Mapping[str, Sequence[str]], numbers: Sequence[str]) -> argparse.ArgumentParser:
    """A parser of these settings, of which all may be missing; arguments as of `settings`."""
    made = argparse.ArgumentParser(description=text)
    for name, values in choices.items():
        made.add_argument(f"--{name}", choices=values)
    for name in numbers:
        made.add_argument(f"--{name}", type=int)
    return made
