"""Settings of a training run, and its batch filters."""

import dataclasses
from typing import Any

from ipsrl import specifications
from ipsrl.fields import Checked, non_negative, positive
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
      ValueError: unknown name or argument (the message suggests known names), a bad value, or a batch filter given
        twice.
    """
    filters = {}
    for batch_filter in specifications.split(text) if text.strip() else ():
        name = batch_filter.partition("(")[0]
        if name in filters:
            raise ValueError(f"the batch filter {name} is given twice in {text!r}: give each one once")
        filters[name] = specifications.build(batch_filter, BATCH_FILTERS, "batch filter")
    return filters


@dataclasses.dataclass(frozen=True)
class TrainSettings(Checked):
    """Length, batch, optimiser and batch filters of a run.

    Attributes:
      steps: batches of rollouts.
      prompts_per_step, group_size: P and G of a batch.
      temperature: of sampling and scoring.
      optimizer, learning_rate, max_gradient_norm: see `make_optimizer`.
      batching: how a batch is split into optimiser steps.
      evaluate_every: steps between evaluations; step 0 and the last step are always evaluated.
      checkpoint_every: steps between checkpoints; the last step is always saved.
      dynamic_sampling: samples until every group is informative; None for one round.
      difficulty_filter: skips prompts before they are sampled; None for all prompts.
      off_policy: puts a refinement into every group; None to use only answers sampled from the policy.
      refresh_reference_every: steps after which the current policy becomes the reference of a KL penalty and of
        `off_policy`; 0 keeps the initial policy as the reference.
      async_rollouts: whether the next step's groups are sampled, by the policy before this step's update, while the
        host verifies this step's. That hides the time of verifying, but groups are stale by one update, which the
        objective's importance ratio must correct; `behaviour_kl` measures that update.
      monitors: names of the monitors that watch the records and warn, see `make_monitors`; `none` for none.

    Raises:
      ValueError: a number is out of its range, or the monitors are unknown.
    """

    steps: int = positive()
    prompts_per_step: int = positive()
    group_size: int = positive()
    temperature: float = positive(1.0)
    optimizer: str = "adam"
    learning_rate: float = positive(3e-4)
    max_gradient_norm: float | None = positive(1.0)
    batching: Batching = WHOLE_BATCH
    evaluate_every: int = positive(25)
    checkpoint_every: int = positive(100)
    dynamic_sampling: DynamicSampling | None = None
    difficulty_filter: DifficultyFilter | None = None
    off_policy: OffPolicyAnswers | None = None
    refresh_reference_every: int = non_negative(0)
    async_rollouts: bool = False
    monitors: str = "all"

    def __post_init__(self):
        super().__post_init__()
        make_monitors(self.monitors)
