"""Pictures and texts on the page of the wind tunnel, as data: they need neither a browser nor a library of pages."""

import dataclasses
import functools
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from ipsrl import objectives
from ipsrl.checking import specifications
from ipsrl.checking.fields import Checked, Range, between, in_range, positive
from ipsrl.dynamics.expected_update import Steps
from ipsrl.dynamics.field import AT_REST, Field, follow, growth
from ipsrl.dynamics.portraits import Portrait, lattice
from ipsrl.dynamics.rest_points import NOTHING, rest_points
from ipsrl.dynamics.verdict import MEANINGS, check, verdict
from ipsrl.figures import phase_portraits, table
from ipsrl.records.json_files import read_json
from ipsrl.rollouts.sources.refinements import spend_samples
from ipsrl.study.settings import as_text, kinds_of

INTERVALS, TIME = 18, 1e6
"""Intervals of the lattice of policies whose velocities are shown; and time of training."""
LARGEST_GROUP, MOST_STEPS = 24, 8
"""Above, a change of the rewards takes a second and more."""
PUBLISHED = Path(__file__).parents[2] / "docs" / "verdicts.json"
"""The published verdicts; where the file is missing, as in a wheel, all verdicts are computed."""
REWARDS = Range(
    "be three numbers from 0 to 1, not all 0", lambda r: len(r) == 3 and min(r) >= 0 and 0 < max(r) <= 1, True
)
PROBS = Range(
    "be three positive probabilities whose sum is 1",
    lambda p: len(p) == 3 and min(p) > 0 and abs(sum(p) - 1) < 1e-6,
    True,
)


@dataclasses.dataclass(frozen=True)
class Controls(Checked):
    """The state of the page: an objective's text, three rewards, G, and the policy from which training is followed.

    A single small step is made on each batch, or several of `step_size`. An objective that needs off-policy answers
    gets them from half of the group.
    """

    objective: str = "ips_grpo(alpha=0.5)"
    rewards: tuple[float, ...] = in_range(REWARDS, (1.0, 0.6, 0.3))
    group_size: int = between(1, LARGEST_GROUP, 8)
    steps: int = between(1, MOST_STEPS, 1)
    step_size: float = positive(0.5)
    start: tuple[float, ...] = in_range(PROBS, (0.5, 0.3, 0.2))

    @classmethod
    def of(cls, query: str) -> Self:
        """The state that a link names, by `?objective=grpo&rewards=1,1,0.5`; the rest is by default.

        Raises:
          ValueError: a name is unknown, or a text is not a value that it may have.
        """
        kinds, values = kinds_of(cls), {}
        for name, text in urllib.parse.parse_qsl(query.removeprefix("?"), keep_blank_values=True):
            if name not in kinds:
                raise ValueError(f"the link names {name!r}: {specifications.did_you_mean(name, kinds)}")
            try:
                values[name] = kinds[name].read(text)
            except ValueError:
                raise ValueError(
                    f"{name} is {specifications.shortened(text)}, it must be {kinds[name].described}"
                ) from None
        return cls(**values)

    @property
    def query(self) -> str:
        """The end of a link to this state; see `of`."""
        return "?" + urllib.parse.urlencode({name: as_text(self, name) for name in kinds_of(Controls)}, safe=",()=")

    @property
    def program(self) -> "Controls":
        """The same state, where what needs no new program, and does not change the verdict, is by default."""
        size = Controls.step_size if self.steps == 1 else self.step_size
        return Controls(self.objective, group_size=self.group_size, steps=self.steps, step_size=size)


@dataclasses.dataclass(frozen=True)
class Picture:
    """A field, its portrait with one path, the times `[T]` of that path, and the powers of time `[3]` at its end."""

    field: Field
    portrait: Portrait
    times: np.ndarray
    exponents: np.ndarray

    def rows(self) -> Iterator[table.Row]:
        """The numbers of the picture: `phase_portraits.rows`, with the time of each point of the path."""
        for row in phase_portraits.rows(self.portrait):
            yield row | ({"time": self.times[row["point"]]} if row["measure"] == "path" else {})


@functools.lru_cache(maxsize=64)
def picture(controls: Controls) -> Picture:
    """The flow on the triangle, and expected training from the start; without rest points, which take seconds.

    Raises:
      ValueError: the objective has no exact expected update on three outcomes.
    """
    field = Field(rewards=controls.rewards, at_once=1, **_arguments(controls.program))
    policies = lattice(INTERVALS)
    velocity = policies * growth(policies, field(np.log(np.maximum(policies, NOTHING))))
    moves = np.linalg.norm(velocity, axis=1) > AT_REST * field.scale
    flow = follow(field, [controls.start], TIME)
    path = [flow.distributions[:, 0]], [flow.finished]
    portrait = Portrait(controls.objective, controls.rewards, INTERVALS, velocity, moves, *path, [])
    return Picture(field, portrait, flow.times, flow.exponents[0])


@functools.lru_cache(maxsize=64)
def with_rest_points(controls: Controls) -> Picture:
    """The same with the rest points of the field."""
    drawn = picture(controls)
    complete = dataclasses.replace(drawn.portrait, rest_points=rest_points(drawn.field))
    return dataclasses.replace(drawn, portrait=complete)


def verdict_of(controls: Controls) -> tuple[str, str, str]:
    """The verdict on the objective, its meaning, and the evidence; rewards and start have no effect on it.

    It is that of docs/verdicts.md where that page has the objective with this group size and a single step, otherwise
    it takes seconds.
    """
    return _verdict(controls.program)


@functools.cache
def _verdict(program: Controls) -> tuple[str, str, str]:
    published: dict[str, Any] = read_json(PUBLISHED) if PUBLISHED.exists() else {"group_size": 0, "verdicts": []}
    if program.steps == 1 and program.group_size == published["group_size"]:
        for row in published["verdicts"]:
            if row["objective"] == program.objective:
                return row["word"], MEANINGS[row["word"]][0], row["evidence"]
    found = verdict(**_arguments(program))
    return found.word, MEANINGS[found.word][0], found.evidence


@functools.lru_cache(maxsize=64)
def _arguments(program: Controls) -> dict[str, Any]:
    made = objectives.make(program.objective)
    group_size, off_policy = spend_samples(made, program.group_size)
    check(made, group_size, off_policy)
    steps = Steps(program.steps, program.step_size) if program.steps > 1 else None
    return {"objective": made, "group_size": group_size, "off_policy": off_policy, "steps": steps}
