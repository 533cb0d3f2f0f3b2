"""Settings of a training run, and its batch filters."""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from ipsrl.checking import specifications
from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked, between, non_negative, positive
from ipsrl.records.monitors import make_monitors
from ipsrl.rollouts.sources.best_answers import BestAnswers
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.diversity_filter import DiversityFilter
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.greedy_answers import GreedyAnswers
from ipsrl.rollouts.sources.one_step_ahead import OneStepAhead
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.replay import ReplayedAnswers, ReplayedGroups
from ipsrl.rollouts.sources.replayed_modes import ReplayedModes
from ipsrl.rollouts.sources.source import Wrapper
from ipsrl.training.step import WHOLE_BATCH, Batching

BATCH_FILTERS: dict[str, type[Wrapper]] = {
    "greedy_answers": GreedyAnswers,
    "best_answers": BestAnswers,
    "replayed_modes": ReplayedModes,
    "replayed_groups": ReplayedGroups,
    "dynamic_sampling": DynamicSampling,
    "replayed_answers": ReplayedAnswers,
    "diversity_filter": DiversityFilter,
    "off_policy": OffPolicyAnswers,
    "difficulty_filter": DifficultyFilter,
}
"""Wrappers of the source of groups by the names that texts give them, in the order of `nested`."""


def nested(wrappers: Iterable[Wrapper]) -> tuple[Wrapper, ...]:
    """Wrappers in an order in which they can be nested, the first outermost: `BATCH_FILTERS`, then any others."""
    places = {kind: place for place, kind in enumerate(BATCH_FILTERS.values())}
    return tuple(sorted(wrappers, key=lambda wrapper: places.get(type(wrapper), len(places))))


@checked
def make_batch_filters(text: str) -> tuple[Wrapper, ...]:
    """Wrappers from a text such as `"dynamic_sampling(rounds=10), off_policy"`, in any order; none from `""`.

    Returns:
      the wrappers, `nested`.

    Raises:
      ValueError: unknown name or argument (the message suggests known names), a bad value, or a batch filter given
        twice.
    """
    given = specifications.by_name(text, "batch filter").values()
    return nested(specifications.build(each, BATCH_FILTERS, "batch filter") for each in given)


@dataclasses.dataclass(frozen=True)
class TrainSettings(Checked):
    """Length, batch, optimiser and batch filters of a run.

    Attributes:
      steps: batches of rollouts.
      prompts_per_step, group_size: P and G of a batch.
      temperature: of sampling and scoring.
      optimizer, learning_rate, max_gradient_norm, adam_epsilon: see `make_optimizer`.
      cosine_decay: whether the learning rate falls to zero along half a cosine, with the last step.
      batching: how a batch is split into optimiser steps.
      evaluate_every: steps between evaluations; step 0 and the last step are always evaluated.
      checkpoint_every: steps between checkpoints; the last step is always saved.
      wrappers: around the source that samples from the policy, the first outermost, as `(DynamicSampling(),
        OffPolicyAnswers(8))`. Batch filters decide which groups reach the objective, see `nested` for their order.
        `OneStepAhead()`, the last, samples the next step's groups by the policy before this step's update, while the
        host verifies this step's.
      refresh_reference_every: steps after which the current policy becomes the reference of a KL penalty and of
        `OffPolicyAnswers`; 0 keeps the initial policy as the reference.
      monitors: names of the monitors that watch the records and warn, see `make_monitors`; `none` for none.

    Raises:
      ValueError: a number is out of its range, or the monitors are unknown.
    """

    steps: int = between(1, 2**31 - 1)
    prompts_per_step: int = between(1, 2**31 - 1)
    group_size: int = between(1, 2**31 - 1)
    temperature: float = between(1e-3, 1e3, 1.0)
    optimizer: str = "adam"
    learning_rate: float = positive(3e-4)
    max_gradient_norm: float | None = positive(1.0)
    adam_epsilon: float = positive(1e-8)
    cosine_decay: bool = False
    batching: Batching = WHOLE_BATCH
    evaluate_every: int = positive(25)
    checkpoint_every: int = positive(100)
    wrappers: tuple[Wrapper, ...] = ()
    refresh_reference_every: int = non_negative(0)
    monitors: str = "all"

    def __post_init__(self):
        super().__post_init__()
        make_monitors(self.monitors)

    def as_config(self) -> dict[str, Any]:
        """The settings as a run folder stores them: each wrapper under its name, None for each batch filter not given.

        Old run folders have the same entries. Only where names do not tell what is around what, `wrappers` does.
        """
        given = {type(wrapper): dataclasses.asdict(wrapper) for wrapper in self.wrappers}
        told = nested(self.wrappers) == self.wrappers and len(given) == len(self.wrappers)
        in_order = {} if told else {"wrappers": [str(wrapper) for wrapper in self.wrappers]}
        named = {name: given.pop(wrapper, None) for name, wrapper in BATCH_FILTERS.items()}
        ahead = given.pop(OneStepAhead, None) is not None
        others = {wrapper.__name__: fields for wrapper, fields in given.items()}
        plain = {name: value for name, value in dataclasses.asdict(self).items() if name != "wrappers"}
        return plain | named | {"async_rollouts": ahead} | others | in_order


def require_same_settings(settings: Sequence[Any], may_differ: Sequence[str]) -> None:
    """Raises ValueError if there are no settings, or if they differ in a field outside `may_differ`."""
    if not settings:
        raise ValueError("there is nothing to run together: give the settings of one run at least")
    for each, field in itertools.product(settings, dataclasses.fields(settings[0])):
        one, other = getattr(settings[0], field.name), getattr(each, field.name)
        if field.name not in may_differ and one != other:
            raise ValueError(
                f"runs of one program may differ in {', '.join(may_differ)}, but {field.name} is {one} and {other}"
            )
