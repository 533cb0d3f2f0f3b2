"""The flags of comparisons: environments of four kinds, and a training budget for each."""

import dataclasses
import functools
import itertools
import typing
from collections.abc import Sequence
from typing import Literal

from ipsrl import objectives, study
from ipsrl.checking.fields import Range, accepted_by, between, in_range, non_negative, positive
from ipsrl.environments import catalog as environments
from ipsrl.environments.environment import Environment
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.group_log import MOST_PROMPTS, SUFFIX, GroupLog, LoggedOutcomes
from ipsrl.environments.state_graph import StateGraph
from ipsrl.environments.text import TextTask
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.training.settings import make_batch_filters

Kind = Literal["log", "bandit", "graph", "text"]
# The first that fits: a log is a bandit, and that is a graph.
KINDS: dict[Kind, type] = {
    "log": LoggedOutcomes,
    "bandit": Bandit,
    "graph": StateGraph,
    "text": TextTask,
}
# What `--environment=bandit` means here: four equally good outcomes, three graded ones, five without reward.
TWELVE = "bandit(rewards=(1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0))"


class Size(typing.NamedTuple):
    """The training budget of each objective."""

    seeds: tuple[int, ...]
    steps: int
    prompts_per_step: int
    group_size: int
    learning_rates: tuple[float, ...]
    evaluate_every: int


SIZES: dict[str, dict[Kind, Size]] = {
    "smoke": {
        "log": Size((0, 1), 20, MOST_PROMPTS, 8, (0.05,), 10),
        "bandit": Size((0, 1), 20, 1, 8, (0.05,), 10),
        "graph": Size((0, 1), 10, 1, 16, (0.05,), 5),
        "text": Size((0,), 2, 8, 4, (3e-4,), 2),
    },
    "demo": {
        "log": Size(tuple(range(5)), 2000, MOST_PROMPTS, 16, (0.02,), 50),
        "bandit": Size(tuple(range(8)), 4000, 1, 16, (0.01,), 100),
        "graph": Size(tuple(range(5)), 2000, 1, 64, (0.02,), 50),
        "text": Size((0,), 150, 40, 16, (3e-4,), 30),
    },
    "paper": {
        "log": Size(tuple(range(10)), 10000, MOST_PROMPTS, 16, (0.001, 0.003, 0.01), 250),
        "bandit": Size(tuple(range(20)), 20000, 1, 16, (0.001, 0.003, 0.01), 500),
        "graph": Size(tuple(range(10)), 10000, 1, 256, (0.003, 0.01, 0.03), 250),
        "text": Size(tuple(range(5)), 300, 40, 16, (1e-4, 3e-4, 1e-3), 30),
    },
}
DIFFERENT = Range(
    "be different positive numbers",
    lambda rates: len(set(rates)) == len(rates) and min(rates, default=1) > 0,
    of_whole=True,
)


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """The flags of a comparison: 0 or empty means the value in `SIZES` for this preset and this kind of environment.

    `objectives` may contain `all`, for every row of the catalog at its defaults. `skew` is that of the start on a
    bandit: p proportional to rank^-skew, in a random order of the arms. `filters` decide what is in a batch on a text
    task, see `ipsrl.training.settings`.
    """

    preset: Literal["smoke", "demo", "paper"]
    environment: str = accepted_by(
        lambda text: text == "bandit" or is_log(text) or environments.check(text), "bandit"
    )
    objectives: tuple[str, ...] = study.selecting(study.objectives(("all",), also=("all",)))
    seeds: tuple[int, ...] = study.seeds((), least=0)
    steps: int = non_negative(0)
    prompts_per_step: int = non_negative(0)
    group_size: int = non_negative(0)
    learning_rates: tuple[float, ...] = study.selecting(in_range(DIFFERENT, ()))
    evaluate_every: int = non_negative(0)
    epochs: int = positive(1)
    # float64 holds 1000^-100, the share of the rarest of a thousand arms.
    skew: float = between(-100, 100, 1.0)
    filters: str = accepted_by(make_batch_filters, "")

    def resolved(self) -> "Settings":
        kind = kind_of(self.environment)
        if self.filters and kind != "text":
            raise ValueError(
                f"--filters={self.filters} are for text tasks: {self.environment} is trained without"
            )
        if any(isinstance(each, OffPolicyAnswers) for each in make_batch_filters(self.filters)):
            raise ValueError(
                "--filters=off_policy is not for all: objectives that need such answers get them by themselves"
            )
        sizes = SIZES[self.preset][kind]._asdict()
        settings = dataclasses.replace(
            self, **{name: getattr(self, name) or size for name, size in sizes.items()}
        )
        settings.require_multiple("steps", "evaluate_every")
        return settings


def chosen_objectives(listed: Sequence[str]) -> tuple[str, ...]:
    """The distinct objectives of a list, with `all` expanded; raises like `objectives.make_each`."""
    written_out = [objectives.names() if item == "all" else (item,) for item in listed]
    return tuple(objectives.make_each(dict.fromkeys(itertools.chain(*written_out))))


def is_log(environment: str) -> bool:
    """Whether an environment is a file of logged groups."""
    return environment.endswith(SUFFIX)


read_log = functools.cache(GroupLog.read)


@functools.cache
def environment_of(text: str) -> Environment:
    if is_log(text):
        return read_log(text).bandit()
    return environments.make(TWELVE if text == "bandit" else text)


def kind_of(environment: str) -> Kind:
    kind = next(
        (name for name, base in KINDS.items() if isinstance(environment_of(environment), base)),
        None,
    )
    if kind is None:
        raise ValueError(
            f"{environment} has no small policy: take a bandit, a tree, a grid or a text task"
        )
    return kind
