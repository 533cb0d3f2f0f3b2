"""Rest points of an objective: the policies at which its expected update on a bandit is zero."""

import dataclasses
import itertools

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import root
from scipy.special import softmax

from ipsrl.checking.arguments import checked, shown
from ipsrl.dynamics.field import AT_REST, Field, growth

NEUTRAL, NO_INVASION = 1e-8, 1e-13
"""Rates, relative to the field's scale, below which a deviation or a trace of an outcome neither grows nor shrinks: the
errors of numerical differentiation and of rounding.
"""
SAME_DISTRIBUTION = 1e-6
"""Difference in probability below which two distributions are the same, and an outcome is absent."""
TRACE = 1e-6
"""Probability at which the growth of an absent outcome is measured."""
MOST_OUTCOMES = 8
"""Largest number of outcomes of which all faces are searched for rest points."""
STARTS_EACH_WAY = 8
"""Starts on each edge of a face; with 6, some saddles of `gapo` are not found."""
NOTHING = 1e-18
"""Probability used in place of 0."""


@dataclasses.dataclass(frozen=True, order=True)
class Loss:
    """The loss of an outcome that a policy lacks: d log p / dt = -speed p^order; slower losses are greater.

    The order is 1 where samples of the outcome move its logit, since they become as rare as it is, and 2 where their
    first order cancels, as under ips_grpo with rewards (1, 1, 0.5) and groups of 4.
    """

    order: int
    time: float
    """1 / speed."""

    def __str__(self):
        """p against t, at large t: (order speed t)^(-1 / order)."""
        if self.order == 0:
            return f"exp(-{1 / self.time:.2g} t)"
        power = "" if self.order == 1 else f"^{1 / self.order:.2g}"
        return f"1 / ({self.order / self.time:.2g} t){power}"


@dataclasses.dataclass(frozen=True)
class RestPoint:
    """A distribution at which expected training rests, and the behaviour of nearby policies.

    Attributes:
      probs: `[K]`; exactly 0 for absent outcomes.
      rates: real parts of the eigenvalues of the Jacobian among the present outcomes, one fewer than these: a small
        deviation changes as exp(rate * t).
      invasion: growth d log p / dt, at p = 1e-6, of each absent outcome.
      scale: of the field, see `Field.scale`.
    """

    probs: np.ndarray
    rates: np.ndarray
    invasion: np.ndarray
    scale: float = 1.0

    @property
    def kind(self) -> str:
        """`attracts`, `repels`, `saddle`, or `neutral` if some direction neither grows nor shrinks."""
        directions = np.concatenate([self.rates, self.invasion]) / self.scale
        noise = np.repeat([NEUTRAL, NO_INVASION], [len(self.rates), len(self.invasion)])
        if np.any(np.abs(directions) <= noise):
            return "neutral"
        return {0: "attracts", len(directions): "repels"}.get(int((directions > 0).sum()), "saddle")

    @property
    def slowest_loss(self) -> Loss:
        """The slowest loss of an outcome that an attracting distribution lacks, from the growth at p = 1e-6.

        The order is the power of p nearest to that growth divided by the speed of the field.
        """
        decline = -float(self.invasion.max())
        order = round(np.log(decline / self.scale) / np.log(TRACE))
        return Loss(order, TRACE**order / decline)


@checked
def rest_points(field: Field) -> list[RestPoint]:
    """The rest points of a field, by root finding from a grid of starts on every face of the simplex.

    A face is a set of outcomes with positive probability; its corners always rest. If a whole face rests (ties under
    expected return), its middle represents it and is `neutral`. A discontinuous field may have rest points that this
    does not find.

    Args:
      field: with few outcomes: there are 2^K - 1 faces.

    Raises:
      ValueError: there are more than `MOST_OUTCOMES`, or the field is not on a bandit.
    """
    field.require_bandit("rest points")
    outcomes = len(field.rewards)
    if outcomes > MOST_OUTCOMES:
        raise ValueError(f"the field has {outcomes} outcomes and may have {MOST_OUTCOMES}")
    found = []
    for size in range(1, outcomes + 1):
        for present in map(list, itertools.combinations(range(outcomes), size)):
            for probs in _rest_distributions_of_face(field, present):
                if all(np.abs(probs - other.probs).max() > SAME_DISTRIBUTION for other in found):
                    found.append(rest_point(field, probs))
    return found


def _rest_distributions_of_face(field: Field, present: list[int]) -> list[np.ndarray]:
    """Rest distributions `[K]` inside the face of the outcomes `present`."""
    outcomes, size = len(field.rewards), len(present)
    middle = np.bincount(present, minlength=outcomes) / size
    if size == 1:
        return [middle]
    counts = np.array([c for c in np.ndindex(*(STARTS_EACH_WAY,) * size) if sum(c) == STARTS_EACH_WAY - 1])
    starts = np.zeros((len(counts), outcomes))
    starts[:, present] = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
    if all(np.ptp(field(_logits(start)[None])[0][present]) <= AT_REST * field.scale for start in starts):
        return [middle]
    solved = [_solved(field, start) for start in starts]
    return [probs for probs in solved if probs is not None]


def _logits(probs: np.ndarray) -> np.ndarray:
    return np.log(np.where(probs > 0, probs, NOTHING))


def _solved(field: Field, start: np.ndarray) -> np.ndarray | None:
    """A rest distribution `[K]` with the outcomes that `start` has, by root finding from there; None if not found."""
    present = np.flatnonzero(start)

    def logits_at(free):
        logits = _logits(np.zeros(len(start)))
        logits[present] = np.append(free, 0.0)
        return logits

    def differences(free):
        velocities = field(logits_at(free)[None])[0][present]
        return velocities[:-1] - velocities[-1]

    def slopes(free):
        jacobian = field.jacobians(logits_at(free)[None])[0][np.ix_(present, present)]
        return (jacobian[:-1] - jacobian[-1])[:, :-1]

    solution = root(differences, np.log(start[present[:-1]] / start[present[-1]]), jac=slopes, tol=1e-10)
    probs = np.zeros(len(start))
    probs[present] = softmax(np.append(solution.x, 0.0))
    is_found = np.abs(solution.fun).max() <= AT_REST * field.scale and probs[present].min() > SAME_DISTRIBUTION
    return probs if is_found else None


@checked
def nearest_rest_point(field: Field, probs: np.ndarray) -> RestPoint | None:
    """The rest point to which root finding leads from a distribution `[K]`, with the same outcomes; None if to none.

    Raises:
      ValueError: as `rest_point`.
    """
    _check_distribution(field, probs)
    found = _solved(field, probs) if (probs > 0).sum() > 1 else probs
    return None if found is None else rest_point(field, found)


def _check_distribution(field: Field, probs: np.ndarray) -> None:
    field.require_bandit("rest points")
    outcomes = len(field.rewards)
    if probs.shape != (outcomes,) or (probs < 0).any() or not np.isclose(probs.sum(), 1.0, rtol=0, atol=1e-6):
        raise ValueError(f"probs is {shown(probs.tolist())}, but it must be a distribution over {outcomes} outcomes")


@checked
def rest_point(field: Field, probs: np.ndarray) -> RestPoint:
    """Behaviour of policies near a distribution `[K]` at which the field is known to rest.

    Raises:
      ValueError: `probs` is not a distribution over the outcomes of the field, or that is not on a bandit.
    """
    _check_distribution(field, probs)
    present = np.flatnonzero(probs > 0)
    jacobian = field.jacobians(_logits(probs)[None])[0][np.ix_(present, present)]
    # Among logits that sum to zero, because a common shift changes nothing.
    tangent = np.asarray(null_space(np.ones((1, len(present)))))
    rates = np.linalg.eigvals(tangent.T @ jacobian @ tangent).real
    invasion = []
    for outcome in np.flatnonzero(probs == 0):
        with_trace = np.where(probs > 0, probs, NOTHING)
        with_trace[outcome] = TRACE
        invasion.append(growth(probs, field(np.log(with_trace)[None])[0])[outcome])
    return RestPoint(probs, np.sort(rates), np.array(invasion), field.scale)
