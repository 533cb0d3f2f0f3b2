"""The flow of an objective's expected update on a bandit, and expected training along it."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import LSODA
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
