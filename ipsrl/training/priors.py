"""Priors that imitate demonstrations with known mistakes, one for each seed, and are taught once."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from ipsrl import objectives
from ipsrl.environments.demonstrations import Demonstrations
from ipsrl.environments.text import TextTask
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.training.ensemble import itself, train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer
from ipsrl.training.warm_start import learned_once

PROMPTS = 8
"""Of a step, each with all of its demonstrations in a table."""


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
        """Of all tables, for `StoredGroups`."""
        # What is only imitated has no importance ratio.
        return [
            row | {"log_probs": [[0.0] * len(answer) for answer in row["answers"]]}
            for table in range(self.tables)
            for row in dataclasses.replace(self.demonstrations, seed=table).rows(self.task)
        ]

    def __call__(self, seed: int) -> Parameters:
        """The prior of a seed, from the disk cache if it was ever taught."""
        taught = {"by": repr(self.demonstrations), "tables": self.tables, "steps": self.steps, "seed": seed}
        return learned_once(self.task, self.policy, taught, functools.partial(self._taught, seed))

    @functools.cached_property
    def _teacher(self) -> Trainer:
        settings = TrainSettings(
            self.steps, PROMPTS, self.demonstrations.answers, learning_rate=3e-3, cosine_decay=True
        )
        source = StoredGroups.of(self.task, self.policy, PROMPTS, self.rows)
        return Trainer(self.task, self.policy, objectives.make("supervised"), settings, source)

    def _taught(self, seed: int) -> Parameters:
        recorded = train_ensemble(self._teacher, jnp.array([seed]), itself, self.steps)
        return jax.tree.map(lambda leaf: leaf[0, -1], recorded)
