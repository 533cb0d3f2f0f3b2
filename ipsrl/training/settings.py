"""How a run is trained: numbers, and the filters that decide what a batch of rollouts is."""

import dataclasses
from typing import Any

from ipsrl import specifications
from ipsrl.records.monitors import make_monitors
from ipsrl.training.batches.difficulty_filter import DifficultyFilter
from ipsrl.training.batches.dynamic_sampling import DynamicSampling
from ipsrl.training.batches.off_policy_answers import OffPolicyAnswers
from ipsrl.training.step import WHOLE_BATCH, Batching

BATCH_FILTERS = {
    "dynamic_sampling": DynamicSampling,
    "difficulty_filter": DifficultyFilter,
    "off_policy": OffPolicyAnswers,
}
"""Batch filters, by the name of their field in `TrainSettings`."""


def make_batch_filters(text: str) -> dict[str, Any]:
    """Fields of `TrainSettings` from a text such as `"dynamic_sampling(rounds=10), off_policy"`; none from `""`.

    Raises:
      ValueError: unknown name or argument (the message says what is near or known), a bad value, or a batch filter
        given twice.
    """
    filters = {}
    for batch_filter in specifications.split(text) if text.strip() else ():
        name = batch_filter.partition("(")[0]
        if name in filters:
            raise ValueError(f"the batch filter {name} is given twice in {text!r}: give each one once")
        filters[name] = specifications.build(batch_filter, BATCH_FILTERS, "batch filter")
    return filters


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """How long, on how much, how fast, and with which batch filters.

    Attributes:
      steps: batches of rollouts.
      prompts_per_step, group_size: P and G of a batch.
      temperature: of sampling and scoring.
      optimizer, learning_rate, max_gradient_norm: see `make_optimizer`.
      batching: how a batch becomes optimiser steps.
      evaluate_every: steps between evaluations; step 0 and the last step are always evaluated.
      checkpoint_every: steps between checkpoints; the last step is always kept.
      dynamic_sampling: samples again until every group is informative; None for one round.
      difficulty_filter: skips prompts before they are sampled; None for all prompts.
      off_policy: puts a further answer into every group; None for groups that the policy drew itself.
      refresh_reference_every: steps after which the current policy becomes the reference of a KL penalty and of
        `off_policy`; 0 for never: then it is the policy that training started from.
      async_rollouts: whether the next step's groups are sampled while the host verifies those of this one, by the
        policy before this step's update. That hides the time verifying takes, but groups are stale by one update, which
        the objective's importance ratio has to make up for; `behaviour_kl` measures that update.
      monitors: what watches the records and warns, see `make_monitors`; `none` for nothing.

    Raises:
      ValueError: a number is not positive, or the monitors cannot be.
    """

    steps: int
    prompts_per_step: int
    group_size: int
    temperature: float = 1.0
    optimizer: str = "adam"
    learning_rate: float = 3e-4
    max_gradient_norm: float | None = 1.0
    batching: Batching = WHOLE_BATCH
    evaluate_every: int = 25
    checkpoint_every: int = 100
    dynamic_sampling: DynamicSampling | None = None
    difficulty_filter: DifficultyFilter | None = None
    off_policy: OffPolicyAnswers | None = None
    refresh_reference_every: int = 0
    async_rollouts: bool = False
    monitors: str = "all"

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("refresh_reference_every", "async_rollouts"):
                continue
            if isinstance(value, int | float) and not value > 0:
                raise ValueError(f"{field.name} is {value}, it must be positive")
        if self.refresh_reference_every < 0:
            raise ValueError(f"refresh_reference_every is {self.refresh_reference_every}, it must not be negative")
        make_monitors(self.monitors)
