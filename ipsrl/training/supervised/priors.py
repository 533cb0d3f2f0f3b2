"""Supervised priors: policies that learned from demonstrations before a study begins, each once for all runs."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl import objectives
from ipsrl.environments.demonstrations import Demonstrations
from ipsrl.environments.environment import Environment
from ipsrl.environments.text import TextTask
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.decoding import ORDINARY, Decoding
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.structures import Prompts, Trajectories
from ipsrl.training.ensemble import itself, train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.supervised.warm_start import learned_once
from ipsrl.training.trainer import Trainer

PROMPTS = 8
"""Prompts of a step, each with all of its demonstrations in a table."""


def teacher(
    environment: Environment,
    policy: Policy,
    rows: Sequence[Mapping[str, Any]],
    steps: int,
    prompts_per_step: int,
    answers: int,
    learning_rate: float = 3e-3,
) -> Trainer:
    """Supervised training on stored answers by Adam, with a learning rate that falls to 0 as a cosine.

    Args:
      rows: for `StoredGroups.of`, each a prompt with `answers` answers.
    """
    settings = TrainSettings(steps, prompts_per_step, answers, learning_rate=learning_rate, cosine_decay=True)
    # What is only imitated has no importance ratio.
    rows = [{**row, "log_probs": [[0.0] * len(answer) for answer in row["answers"]]} for row in rows]
    source = StoredGroups.of(environment, policy, prompts_per_step, rows)
    return Trainer(environment, policy, objectives.make("supervised"), settings, source)


def imitated(
    environment: Environment, policy: Policy, taught_by: Callable[[], Trainer], seed: int, known_by: Mapping[str, Any]
) -> Parameters:
    """The parameters after a teacher's training, from the disk cache if they were ever learned.

    Args:
      environment, policy: of the parameters.
      taught_by: makes the teacher; not called if the cache has the parameters.
      seed: decides the initial parameters and the order of demonstrations.
      known_by: what tells these demonstrations from others, as JSON values.
    """

    def learn() -> Parameters:
        trainer = taught_by()
        recorded = train_ensemble(trainer, jnp.array([seed]), itself, trainer.settings.steps)
        return jax.tree.map(lambda leaf: leaf[0, -1], recorded)

    return learned_once(environment, policy, {**known_by, "seed": seed}, learn)


@dataclasses.dataclass(frozen=True)
class Imitators:
    """Policies of a task after supervised training.

    A seed decides the initial parameters and the order of demonstrations.

    Attributes:
      demonstrations: what is imitated, with the seeds 0, 1, ..., whatever its own.
      steps: of training, by Adam with a learning rate of 0.003 that falls to 0 as a cosine.
      tables: number of these seeds; all priors learn from all tables.
    """

    task: TextTask
    policy: Transformer
    demonstrations: Demonstrations
    steps: int
    tables: int = 4

    @functools.cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of all tables, for `StoredGroups`."""
        return [
            row
            for table in range(self.tables)
            for row in dataclasses.replace(self.demonstrations, seed=table).rows(self.task)
        ]

    def __call__(self, seed: int) -> Parameters:
        """The prior of a seed, from the disk cache if it was ever taught."""
        known_by = {"by": repr(self.demonstrations), "tables": self.tables, "steps": self.steps}
        return imitated(self.task, self.policy, lambda: self._teacher, seed, known_by)

    @property
    def prompts(self) -> Prompts:
        """All prompts of the task."""
        return self.task.prompts(jnp.arange(self.task.num_prompts))

    def sampled(self, parameters: Parameters, key: Array, answers: int, decoding: Decoding = ORDINARY) -> Trajectories:
        """Answers of any policy of the task to all prompts, on the host."""
        asked = self.task, self.policy, parameters, self.prompts
        return jax.device_get(sample_groups(*asked, key, answers, decoding))

    @functools.cached_property
    def _teacher(self) -> Trainer:
        return teacher(self.task, self.policy, self.rows, self.steps, PROMPTS, self.demonstrations.answers)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learners(Imitators):
    """Imitators that then learn from rewards.

    A seed decides the prior, as in `Imitators`, and the answers that reinforcement learning samples.

    Attributes:
      training: of reinforcement learning, on all prompts.
    """

    training: TrainSettings

    def trainer(self, objective: str) -> Trainer:
        """Raises ValueError if the objective is unknown or cannot be trained here."""
        trainer = Trainer(self.task, self.policy, objectives.make(objective), self.training)
        trainer.check()
        return trainer
