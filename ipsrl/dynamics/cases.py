"""The cases of verdicts: rewards of three outcomes, starts, and where the flows of an objective's field end."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from ipsrl.dynamics.equal_fields import once_for_equal
from ipsrl.dynamics.field import AT_REST, Field, LogitField, follow, train
from ipsrl.dynamics.rest_points import NOTHING, RestPoint, nearest_rest_point, rest_point
from ipsrl.environments.graphs.tree import Tree

CASES = {
    "full tie": (1.0, 1.0, 1.0),
    "partial tie": (1.0, 1.0, 0.5),
    "binary": (1.0, 1.0, 0.0),
    "unequal": (1.0, 0.6, 0.3),
}
"""Rewards of three outcomes."""
SKEWED = (0.3, 0.6, 0.1)
REFERENCES = {"uniform": None, "skewed": SKEWED}
"""Distributions of the reference policy."""
STARTS = tuple(start for probs in ((0.5, 0.3, 0.2), (0.9, 0.07, 0.03)) for start in itertools.permutations(probs))
"""Distributions `[12, 3]` from which the flows start: none is symmetric, and half are nearly collapsed."""
WALKS = Tree(depth=2, longest_step=1, rewards=(1.0, 1.0, 1.0))
"""Sequences: two moves, each right or up. After either first move two outcomes are possible, and one is common to both:
it is the third of the cases, which is wrong where one is wrong, and two walks end in it, RU and UR.
"""
MULTIPLICITY = (1, 1, 2)
"""Number of walks that end in each outcome of the cases."""
IN_TREE = [0, 2, 1]
"""The place of each outcome of the cases among those of `WALKS`, and the other way round."""
STARTS_OF_WALKS = tuple(STARTS[n] for n in (0, 2, 3, 6, 8, 9))
"""Six of `STARTS`: in each half one start for each leading outcome."""
SPLIT = (0.6, 0.4)
"""The shares of the two walks in the probability of their outcome, at the start."""

SAME = 0.02
"""Difference in probability up to which distributions count as equal."""
LOST = 0.01
"""Probability below which an outcome counts as lost."""
DYING, STILL_THERE = -0.03, 0.4
"""Exponent d log p / d log t below which an outcome counts as lost, if its probability is below the second number."""
STEP_SIZE, STEPS = 0.25, 2_000
"""Step size and steps of expected training, where a flow is not smooth."""


@dataclasses.dataclass(frozen=True)
class Case:
    """The limit of expected training, for some rewards and a reference.

    Attributes:
      field: of the expected update.
      ends: `[N, 3]`, distributions at the end of the flows from `starts`.
      exponents: `[N, 3]`, d log p / d log t there.
      starts: of N flows.
    """

    field: Field
    ends: np.ndarray
    exponents: np.ndarray
    starts: tuple[tuple[float, ...], ...] = STARTS

    @property
    def stays(self) -> bool:
        """Whether nothing moves, from any start."""
        return bool(np.abs(self.ends - self.starts).max() < SAME)

    @functools.cached_property
    def limits(self) -> np.ndarray:
        """`[N, 3]`, the ends without the lost outcomes."""
        return limits(self.ends, self.exponents)

    @property
    def probs(self) -> np.ndarray | None:
        """`[3]`, the distribution where all flows end; None if it depends on the start."""
        mean = self.limits.mean(axis=0)
        return mean if np.abs(self.limits - mean).max() < SAME else None

    @functools.cached_property
    def rest(self) -> RestPoint | None:
        """The rest point where all flows end, by root finding; None if it is not a rest point, or not found, as on
        walks.
        """
        if self.probs is None or self.field.environment is not None:
            return None
        point = nearest_rest_point(self.field, self.probs)
        is_end = point is not None and point.kind == "attracts" and np.abs(point.probs - self.probs).max() < SAME
        return point if is_end else None

    @functools.cached_property
    def fate_of_even_split(self) -> str:
        """The clause on what training does to an even split of two correct outcomes.

        Empty if the split moves on, and for walks.
        """
        if self.field.environment is not None:
            return ""
        even = np.array([0.5, 0.5, 0.0])
        first, second, _ = self.field(np.log(np.maximum(even, NOTHING))[None])[0]
        if abs(first - second) > AT_REST * self.field.scale:
            return ""
        fate = {"neutral": "is not restored", "attracts": "is restored only from nearby"}
        return f"; an even split {fate.get(rest_point(self.field, even).kind, 'repels')}"

    @property
    def text(self) -> str:
        """A few words."""
        if self.stays:
            return "stays where it is"
        if self.probs is not None:
            return written(self.probs)
        if np.all((self.limits > 0).sum(axis=1) == 1):
            winners = np.unique(self.limits.argmax(axis=1))
            return f"one of {len(winners)} outcomes"
        return f"depends on the start: {written(self.limits[0])} from {written(self.starts[0])}"


@once_for_equal
def case_of(field: Field) -> Case:
    """Follows the flows from all starts; several steps on a batch are a map, and repeated."""
    if field.environment is not None:
        return _case_of_walks(field)
    if field.steps is not None:
        return Case(field, *train(field, STARTS, field.steps.size, STEPS))
    return Case(field, *ends_of(field, STARTS))


def _case_of_walks(field: Field) -> Case:
    starts = as_walks(STARTS_OF_WALKS)
    # One by one: on walks a policy may leave a corner late and fast, and would hold up those at rest.
    flows = list(itertools.takewhile(lambda flow: flow.finished, (follow(field, start[None]) for start in starts)))
    if len(flows) == len(starts):
        ends = np.concatenate([flow.distributions[-1] for flow in flows])
        exponents = np.concatenate([flow.exponents for flow in flows])
    else:
        # Two moves are learned more slowly than one.
        ends, exponents = train(field, starts, STEP_SIZE, 4 * STEPS)
    return Case(field, ends[:, IN_TREE], exponents[:, IN_TREE], STARTS_OF_WALKS)


def limits(ends: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """`[N, 3]`, distributions at the end of flows without the lost outcomes; arguments as in `Case`."""
    dying = (exponents < DYING) & (ends < STILL_THERE)
    kept = np.where((ends < LOST) | dying, 0.0, ends)
    return kept / kept.sum(axis=1, keepdims=True)


def ends_of(field: LogitField, starts: Sequence[Sequence[float]] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distributions `[N, K]` at the end of the flows, and exponents; of expected training where no flow exists."""
    flow = follow(field, starts)
    if flow.finished:
        return flow.distributions[-1], flow.exponents
    return train(field, starts, STEP_SIZE, STEPS)


def as_walks(distributions: Sequence[Sequence[float]]) -> np.ndarray:
    """`[N, 4]`, the probabilities of RR, RU, UR and UU, see `WALKS`, that have the given ones of outcomes `[N, 3]`."""
    up, right, both = np.asarray(distributions).T
    return np.stack([right, SPLIT[0] * both, SPLIT[1] * both, up], axis=1)


class Cases(Mapping[str, Case]):
    """Cases by the names of their rewards; each is followed when it is first asked for."""

    def __init__(self, field: Callable[[tuple[float, ...]], Field]):
        """`field` is that of some rewards."""
        self._field, self._found = field, dict[str, Case]()

    def __getitem__(self, name: str) -> Case:
        if name not in self._found:
            self._found[name] = case_of(self._field(CASES[name]))
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(CASES)

    def __len__(self) -> int:
        return len(CASES)


def written(probs: Iterable[float]) -> str:
    """`0.58 : 0.42 : 0`."""
    return " : ".join(f"{p:.2f}" if p else "0" for p in probs)
