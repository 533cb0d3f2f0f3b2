"""Shared parts of the GRPO trainers here: prompts as text, rewards, and their descriptions."""

import argparse
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import workloads
from benchmarks.workloads import WORKLOADS, Workload

STEPS = 10**6
"""More steps than any benchmark uses."""


def texts(workload: Workload) -> list[str]:
    """The prompts, as numbers separated by blanks."""
    return [" ".join(map(str, prompt)) for prompt in workload.prompt_tokens()]


class Rewards:
    """Rewards answers, and collects the report of a step.

    Attributes:
      report: the number of sampled tokens and the mean reward since the last report.
    """

    def __init__(self, workload: Workload):
        self._workload = workload
        self.report: dict[str, Any] = {}

    def __call__(self, completions: Sequence[Sequence[int]]) -> list[float]:
        """The reward of each answer.

        Raises:
          ValueError: there are fewer or more answers than a step has, or one is shorter or longer than it should be.
        """
        expected = self._workload.prompts * self._workload.group_size
        if len(completions) != expected:
            raise ValueError(f"a step samples {len(completions)} answers, but the workload has {expected}")
        lengths = sorted({len(completion) for completion in completions})
        if lengths != [self._workload.completion_length]:
            raise ValueError(
                f"answers have {lengths} tokens, but the workload has {self._workload.completion_length}: "
                "some were cut or ended early"
            )
        rewards = [workloads.reward(completion) for completion in completions]
        self.report = {"reward": sum(rewards) / len(rewards), "tokens": sum(map(len, completions))}
        return rewards


def description(
    name: str, packages: Sequence[str], workload: Workload, parameters: int, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A contender's description of itself.

    Raises:
      ValueError: the model's number of parameters differs from the workload's by more than one per cent.
    """
    if abs(parameters - workload.parameters) > 0.01 * workload.parameters:
        raise ValueError(f"{name}'s model has {parameters} parameters, but the workload's has {workload.parameters}")
    return {
        "name": name,
        "versions": {package: importlib.metadata.version(package) for package in packages},
        "parameters": parameters,
        "tokens_per_step": workload.prompts * workload.group_size * workload.completion_length,
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
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    for name, values in choices.items():
        parser.add_argument(f"--{name}", choices=values)
    for name in numbers:
        parser.add_argument(f"--{name}", type=int)
    arguments = vars(parser.parse_args())
    name = arguments.pop("workload")
    return WORKLOADS[name], best[name] | {key: value for key, value in arguments.items() if value is not None}
