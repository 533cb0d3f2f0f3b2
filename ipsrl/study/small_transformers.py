"""Settings of studies of small transformers."""

from typing import Any

from ipsrl.environments.environment import Environment
from ipsrl.policies.transformer import Transformer
from ipsrl.study.settings import Settings, shared
from ipsrl.training.settings import TrainSettings


class SmallTransformers(Settings):
    """A transformer of `hidden_size` and `num_layers` is taught in `prior_steps`, and then learns from rewards.

    An update is by `prompts_per_step` groups.
    """

    # Each study has these fields among its own: the order of all is that in the names of its folders.
    hidden_size: int
    num_layers: int

    def transformer(self, task: Environment) -> Transformer:
        """The policy of a task."""
        return Transformer(task.vocabulary_size, hidden_size=self.hidden_size, num_layers=self.num_layers)

    def training(self, **others: Any) -> TrainSettings:
        """Settings of reinforcement learning: those of these names, and others."""
        return TrainSettings(**shared(self, TrainSettings) | others)
