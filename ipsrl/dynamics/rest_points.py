"""Rest points of an objective: the flow of its expected update on a bandit, and the policies at which it rests."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import LSODA
from scipy.linalg import null_space
from scipy.optimize import root
from scipy.special import log_softmax, softmax

from ipsrl.arguments import accepted, checked, shown
from ipsrl.dynamics.expected_update import Steps, differentiable, expected_update
from ipsrl.fields import Checked, at_least, in_range
from ipsrl.objectives.objective import Objective
from ipsrl.rewards import ALLOWED
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers

CRAWL_STEPS, CRAWL = 200, 0.05
"""Give up if 200 steps advance log-time by less than this: the field is discontinuous here."""
FIRST_TIME = 1e-8
"""Start of log-time."""
AT_REST = 3e-8
"""Speed of logits, relative to the field's scale, below which nothing moves."""
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
NOTHING = 1e-18
"""Probability used in place of 0."""


@dataclasses.dataclass(frozen=True)
class Field(Checked):
    """The expected update of an objective on a bandit, dz/dt = field(z), in float64.

    Attributes:
      objective: any objective that needs no text.
      rewards: of the K outcomes.
      group_size: G.
      reference: distribution of the reference policy; uniform by default.
      off_policy: puts off-policy answers into groups.
      steps: on each batch; a single small one by default.

    Raises:
      ValueError: there are fewer than two rewards, one is not finite, or the reference is not a distribution of
        positive probabilities.
    """

    objective: Objective
    rewards: tuple[float, ...] = in_range(ALLOWED)
    group_size: int = at_least(1)
    reference: tuple[float, ...] | None = None
    off_policy: OffPolicyAnswers | None = None
    steps: Steps | None = None

    def __post_init__(self):
        super().__post_init__()
        if len(self.rewards) < 2:
            raise ValueError(f"rewards is {self.rewards}, but a field needs those of two outcomes or more")
        if self.reference is not None:
            logits_of([self.reference], "reference", len(self.rewards))

    @checked
    def __call__(self, logits: np.ndarray) -> np.ndarray:
        """`[N, K]` at the logits `[N, K]`."""
        return self.evaluate(_velocity, logits)

    @checked
    def jacobian(self, logits: np.ndarray) -> np.ndarray:
        """`[K, K]`, the derivative of the field by the logits `[K]`; see `expected_update.differentiable`."""
        return self.evaluate(_jacobian, logits)

    @functools.cached_property
    def scale(self) -> float:
        """Its largest speed over distributions spread over the simplex; 1 if nothing moves."""
        outcomes = len(self.rewards)
        distributions = np.concatenate(
            [np.full((1, outcomes), 1 / outcomes), (0.7 * np.eye(outcomes) + 0.3 / outcomes)]
        )
        speed = float(np.abs(self(np.log(distributions))).max())
        return speed if speed > 1e-12 * np.abs(self.rewards).max() else 1.0

    def evaluate(self, function: Callable, logits: np.ndarray) -> np.ndarray:
        """Evaluates a function of (`Batch`, logits, rewards, reference logits) in float64.

        Raises:
          ValueError: the result is not finite.
        """
        reference = np.log(self.reference) if self.reference else np.zeros(len(self.rewards))
        # Root finding evaluates fields thousands of times: a compiled function takes NumPy arrays fastest.
        arrays = (np.asarray(array, np.float64) for array in (logits, self.rewards, reference))
        with jax.enable_x64(True):
            batch = Batch(self.objective, self.group_size, self.off_policy, self.steps)
            values = np.asarray(function(batch, *arrays))
        if not np.isfinite(values).all():
            raise ValueError(
                f"the expected update is not finite for rewards {self.rewards} at logits {logits.tolist()}"
            )
        return values


class Batch(NamedTuple):
    """What a compiled field depends on; see `Field`."""

    objective: Objective
    group_size: int
    off_policy: OffPolicyAnswers | None
    steps: Steps | None

    def update(self, logits: jax.Array, rewards: jax.Array, reference: jax.Array) -> jax.Array:
        """The expected update `[K]`."""
        return expected_update(
            self.objective, logits, rewards, self.group_size, reference=reference, off_policy=self.off_policy,
            steps=self.steps, num_keys=1,
        )  # fmt: skip


@functools.partial(jax.jit, static_argnums=0)
def _velocity(batch, logits, rewards, reference):
    return jax.vmap(batch.update, in_axes=(0, None, None))(logits, rewards, reference)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _train(step_size, steps, batch, logits, rewards, reference):
    def step(carry, _):
        logits, total = carry
        logits = logits + step_size * _velocity(batch, logits, rewards, reference)
        return (logits, total + logits), None

    def an_eighth(logits, _):
        (logits, total), _ = jax.lax.scan(step, (logits, jnp.zeros_like(logits)), length=steps // 8)
        return logits, total / (steps // 8)

    _, means = jax.lax.scan(an_eighth, logits, length=8)
    # Means over the fourth eighth, and over the last two.
    return jnp.stack([means[3], means[6:].mean(axis=0)])


@functools.partial(jax.jit, static_argnums=0)
def _jacobian(batch, logits, rewards, reference):
    return jax.jacfwd(differentiable(lambda logits: batch.update(logits, rewards, reference)))(logits)


@dataclasses.dataclass(frozen=True)
class Flow:
    """Expected training from N starts.

    Attributes:
      times: `[T]`, updates x step size; the first is 0.
      logits: `[T, N, K]`.
      finished: False if the integration stopped before its end, where the field is discontinuous.
    """

    times: np.ndarray
    logits: np.ndarray
    finished: bool

    @property
    def distributions(self) -> np.ndarray:
        """`[T, N, K]`."""
        return softmax(self.logits, axis=-1)

    @property
    def exponents(self) -> np.ndarray:
        """`[N, K]`, d log p / d log t at the end: p changes as t to this power, 0 at rest.

        Over at least the last tenth of the time: with the velocity at the end, the integrator's error would be
        multiplied by t.
        """
        before = np.flatnonzero(self.times <= self.times[-1] / 1.1)[-1]
        if self.times[before] == 0:
            return np.zeros(self.logits.shape[1:])
        late = log_softmax(self.logits[[before, -1]], axis=-1)
        return (late[1] - late[0]) / np.log(self.times[-1] / self.times[before])


@checked
def growth(distributions: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """d log p / dt `[..., K]` where dz/dt is `velocity`: v_i - sum_k p_k v_k."""
    return velocity - (distributions * velocity).sum(axis=-1, keepdims=True)


@checked
def follow(field: Field, distributions: Sequence[Sequence[float]], time: float = 1e6) -> Flow:
    """Integrates the field from distributions `[N, K]` (all positive) to a time, or until nothing moves.

    In log-time and by LSODA, whose implicit method takes large steps where little changes. Relative tolerance 1e-7,
    absolute 1e-9.

    Raises:
      ValueError: a start is not a distribution of positive probabilities, or there is no time.
    """
    starts = logits_of(distributions, "distributions", len(field.rewards))
    starts -= starts.mean(axis=1, keepdims=True)
    if not time > FIRST_TIME:
        raise ValueError(f"time is {time}, it must be above {FIRST_TIME}, where the integration begins")

    def in_log_time(log_time, flat):
        return np.exp(log_time) * field(flat.reshape(starts.shape)).ravel()

    # The starts are independent: the derivative is K x K blocks along the diagonal.
    band = starts.shape[1] - 1
    solver = LSODA(
        in_log_time, np.log(FIRST_TIME), starts.ravel(), np.log(time), rtol=1e-7, atol=1e-9, lband=band, uband=band
    )
    times, logits, velocity = [0.0, FIRST_TIME], [starts, starts], field(starts)
    at_rest = AT_REST * field.scale
    while solver.status == "running" and np.abs(velocity).max() > at_rest:
        solver.step()
        if len(times) > CRAWL_STEPS and solver.t - np.log(times[-CRAWL_STEPS]) < CRAWL:
            break
        times.append(float(np.exp(solver.t)))
        logits.append(solver.y.reshape(starts.shape).copy())
        velocity = field(logits[-1])
    finished = solver.status == "finished" or bool(np.abs(velocity).max() <= at_rest)
    return Flow(np.array(times), np.array(logits), finished)


def logits_of(distributions: Sequence[Sequence[float]], name: str, outcomes: int) -> np.ndarray:
    """The logarithms of distributions `[N, K]`; raises ValueError, with their name, unless they are."""
    probs = np.asarray(accepted(name, distributions, np.ndarray), np.float64)
    if probs.ndim != 2 or probs.shape[1] != outcomes or len(probs) == 0:
        raise ValueError(f"{name} has the shape {list(probs.shape)}, but each must have {outcomes} probabilities")
    if not (probs > 0).all() or not np.allclose(probs.sum(axis=1), 1.0, rtol=0, atol=1e-6):
        raise ValueError(f"{name} is {shown(probs.tolist())}, but probabilities must be positive and add up to 1")
    return np.log(probs)


@checked
def train(
    field: Field, distributions: Sequence[Sequence[float]], step_size: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Distributions `[N, K]` after expected training by z <- z + step_size * field(z), and exponents.

    This is training without noise. It can cross discontinuities of a field, at which `follow` stops. A policy that
    slides along a discontinuity keeps crossing it, so the logits are means over the last quarter of the steps, and the
    exponents d log p / d log t compare them with those at half that time.

    Raises:
      ValueError: `steps` is not a positive multiple of 8, the step size is not positive, a start is not a distribution
        of positive probabilities, or training diverges.
    """
    if steps < 1 or steps % 8:
        raise ValueError(f"steps is {steps}, it must be a positive multiple of 8")
    if not 0 < step_size < np.inf:
        raise ValueError(f"step_size is {step_size}, it must be positive")
    logits = logits_of(distributions, "distributions", len(field.rewards))
    half, end = field.evaluate(functools.partial(_train, step_size, steps), logits)
    log_probs = log_softmax(np.stack([half, end]), axis=-1)
    return np.exp(log_probs[1]), (log_probs[1] - log_probs[0]) / np.log(2)


@dataclasses.dataclass(frozen=True, order=True)
class Loss:
    """How an outcome that a policy lacks is lost: d log p / dt = -speed p^order, slower ones are greater.

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
        """Of the outcomes that an attracting distribution lacks, from their growth at p = 1e-6.

        The order is the power of p nearest to that growth, over the speed of the field.
        """
        decline = -float(self.invasion.max())
        order = round(np.log(decline / self.scale) / np.log(TRACE))
        return Loss(order, TRACE**order / decline)


@checked
def rest_points(field: Field, starts_each_way: int = 8) -> list[RestPoint]:
    """The rest points of a field, by root finding from a grid of starts on every face of the simplex.

    A face is a set of outcomes with positive probability; its corners always rest. If a whole face rests (ties under
    expected return), its middle represents it and is `neutral`. A discontinuous field may have rest points that this
    does not find.

    Args:
      field: with few outcomes: there are 2^K - 1 faces.
      starts_each_way: starts on each edge of a face; with 6, some saddles of `gapo` are not found.

    Raises:
      ValueError: `starts_each_way` is below 1, or there are more than `MOST_OUTCOMES`.
    """
    if starts_each_way < 1 or len(field.rewards) > MOST_OUTCOMES:
        raise ValueError(
            f"starts_each_way is {starts_each_way} and must be at least 1, and the field has {len(field.rewards)} "
            f"outcomes and may have {MOST_OUTCOMES}"
        )
    found = []
    outcomes = len(field.rewards)
    for size in range(1, outcomes + 1):
        for present in map(list, itertools.combinations(range(outcomes), size)):
            for probs in _rest_distributions_of_face(field, present, starts_each_way):
                if all(np.abs(probs - other.probs).max() > SAME_DISTRIBUTION for other in found):
                    found.append(rest_point(field, probs))
    return found


def _rest_distributions_of_face(field: Field, present: list[int], starts_each_way: int) -> list[np.ndarray]:
    """Rest distributions `[K]` inside the face of the outcomes `present`."""
    outcomes, size = len(field.rewards), len(present)
    middle = np.bincount(present, minlength=outcomes) / size
    if size == 1:
        return [middle]

    def logits_at(free):
        logits = np.full(outcomes, np.log(NOTHING))
        logits[present] = np.append(free, 0.0)
        return logits

    def differences(free):
        velocities = field(logits_at(free)[None])[0][present]
        return velocities[:-1] - velocities[-1]

    def slopes(free):
        jacobian = field.jacobian(logits_at(free))[np.ix_(present, present)]
        return (jacobian[:-1] - jacobian[-1])[:, :-1]

    counts = np.array([c for c in np.ndindex(*(starts_each_way,) * size) if sum(c) == starts_each_way - 1])
    grid = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
    free_starts = np.log(grid[:, :-1] / grid[:, -1:])
    at_rest = AT_REST * field.scale
    if all(np.abs(differences(free)).max() <= at_rest for free in free_starts):
        return [middle]
    distributions = []
    for free in free_starts:
        solution = root(differences, free, jac=slopes, tol=1e-10)
        probs = softmax(np.append(solution.x, 0.0))
        if np.abs(solution.fun).max() <= at_rest and probs.min() > SAME_DISTRIBUTION:
            whole = np.zeros(outcomes)
            whole[present] = probs
            distributions.append(whole)
    return distributions


@checked
def rest_point(field: Field, probs: np.ndarray) -> RestPoint:
    """Behaviour of policies near a distribution `[K]` at which the field is known to rest.

    Raises:
      ValueError: `probs` is not a distribution over the outcomes of the field.
    """
    outcomes = len(field.rewards)
    if probs.shape != (outcomes,) or (probs < 0).any() or not np.isclose(probs.sum(), 1.0, rtol=0, atol=1e-6):
        raise ValueError(f"probs is {shown(probs.tolist())}, but it must be a distribution over {outcomes} outcomes")
    present = np.flatnonzero(probs > 0)
    jacobian = field.jacobian(np.log(np.where(probs > 0, probs, NOTHING)))[np.ix_(present, present)]
    # Among logits that sum to zero, because a common shift changes nothing.
    tangent = np.asarray(null_space(np.ones((1, len(present)))))
    rates = np.linalg.eigvals(tangent.T @ jacobian @ tangent).real
    invasion = []
    for outcome in np.flatnonzero(probs == 0):
        with_trace = np.where(probs > 0, probs, NOTHING)
        with_trace[outcome] = TRACE
        invasion.append(growth(probs, field(np.log(with_trace)[None])[0])[outcome])
    return RestPoint(probs, np.sort(rates), np.array(invasion), field.scale)
