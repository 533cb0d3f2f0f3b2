"""The flow of an objective's expected update on a bandit or on short walks, and expected training along it."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import BDF
from scipy.sparse import bsr_array
from scipy.special import log_softmax, logsumexp

from ipsrl.checking.arguments import accepted, checked, shown
from ipsrl.checking.fields import Checked, at_least, in_range
from ipsrl.dynamics.expected_update import Steps, expected_update
from ipsrl.dynamics.trajectories import every_trajectory, every_walk
from ipsrl.environments.state_graph import StateGraph
from ipsrl.objectives.objective import Objective
from ipsrl.rewards import ALLOWED
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers

CRAWL_STEPS, CRAWL = 200, 0.05
"""Give up if 200 steps advance log-time, and every logit, by less than this: the field is discontinuous here. A policy
that leaves a corner late moves within little log-time.
"""
FIRST_TIME = 1e-8
"""Start of log-time."""
PROGRAMS = 32
"""Number of compiled fields that are kept; hundreds take gigabytes."""
AT_REST = 3e-8
"""Speed of logits, relative to the field's scale, below which nothing moves."""


class LogitField(Checked, abc.ABC):
    """A motion of D logits, dz/dt = field(z), which `follow` integrates."""

    scale: float
    """A typical speed, in units of which nothing moves below `AT_REST`."""

    @property
    @abc.abstractmethod
    def table_shape(self) -> tuple[int, int]:
        """Rows and columns of the table of logits; D are its rows one after another, each with a free constant."""

    @abc.abstractmethod
    def __call__(self, logits: np.ndarray) -> np.ndarray:
        """`[N, D]` at the logits `[N, D]`."""

    @abc.abstractmethod
    def logits_of(self, distributions: Sequence[Sequence[float]] | np.ndarray, name: str) -> np.ndarray:
        """Logits `[N, D]` of distributions; raises ValueError, with their name, unless they are right."""

    @abc.abstractmethod
    def log_probs(self, logits: np.ndarray) -> np.ndarray:
        """Log-probabilities of the outcomes `[..., K]` at the logits `[..., D]`."""

    @checked
    def jacobians(self, logits: np.ndarray) -> np.ndarray:
        """`[N, D, D]`, the derivatives of the field by the logits `[N, D]`: central differences, exact to about 1e-10.

        D times two evaluations of N policies, so that a field whose programs are for N compiles no other.
        """
        step = np.finfo(np.float64).eps ** (1 / 3)
        shifts = step * np.eye(logits.shape[1])
        columns = [(self(logits + shift) - self(logits - shift)) / (2 * step) for shift in shifts]
        return np.stack(columns, axis=-1)


@dataclasses.dataclass(frozen=True)
class Field(LogitField):
    """The expected update of an objective, dz/dt = field(z), in float64.

    z are the D logits of a bandit's K outcomes, D = K, or of a table on an environment, D = S V, state by state.

    Attributes:
      objective: any objective that needs no text.
      rewards: of the K outcomes.
      group_size: G.
      reference: distribution of the reference policy, of outcomes or of walks, see `logits_of`; uniform by default.
      off_policy: puts off-policy answers into groups.
      steps: on each batch; a single small one by default.
      environment: has one prompt and few walks; a bandit by default.
      at_once: number of policies of one compiled program, which takes any number in parts of these, the last filled up;
        by default each number is a program of its own, which runs faster, and takes seconds to compile.

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
    environment: StateGraph | None = None
    at_once: int | None = at_least(1, None)

    def __post_init__(self):
        super().__post_init__()
        if len(self.rewards) < 2:
            raise ValueError(f"rewards is {self.rewards}, but a field needs those of two outcomes or more")
        if self.reference is not None:
            self.logits_of([self.reference], "reference")

    @property
    def table_shape(self) -> tuple[int, int]:
        """(states, actions) of the policy; the D logits are its rows one after another."""
        graph = self.environment
        return (1, len(self.rewards)) if graph is None else (graph.num_observations, graph.vocabulary_size)

    @checked
    def __call__(self, logits: np.ndarray) -> np.ndarray:
        if self.at_once is None or len(logits) == self.at_once:
            return self.evaluate(_velocity, logits)
        parts = -(-len(logits) // self.at_once)
        filled_up = np.resize(logits, (parts * self.at_once, logits.shape[1]))
        return np.concatenate([self.evaluate(_velocity, part) for part in np.split(filled_up, parts)])[: len(logits)]

    def require_bandit(self, what: str) -> None:
        """Raises ValueError, that `what` are known of bandits only, on another environment."""
        if self.environment is not None:
            raise ValueError(f"{what} are found for bandits, but this field is on {self.environment}: leave it out")

    def logits_of(self, distributions: Sequence[Sequence[float]] | np.ndarray, name: str) -> np.ndarray:
        """Logits `[N, D]` of distributions `[N, K]` of outcomes, on an environment `[N, M]` of walks.

        The walks are in the order of `trajectories.every_walk`. Where they meet again, the policy goes on by the mean
        of their distributions, so that it keeps those of moves, and not always those of walks.

        Raises:
          ValueError: with the name, unless they are distributions of positive probabilities.
        """
        probs = np.asarray(accepted(name, distributions, np.ndarray), np.float64)
        walks = None if self.environment is None else _Walks.of(self.environment)
        expected = len(self.rewards) if walks is None else len(walks.outcomes)
        if probs.ndim != 2 or probs.shape[1] != expected or len(probs) == 0:
            raise ValueError(f"{name} has the shape {list(probs.shape)}, but each must have {expected} probabilities")
        if not (probs > 0).all() or not np.allclose(probs.sum(axis=1), 1.0, rtol=0, atol=1e-6):
            raise ValueError(f"{name} is {shown(probs.tolist())}, but probabilities must be positive and add up to 1")
        if walks is None:
            return np.log(probs)
        moves = np.zeros((len(probs), *self.table_shape))
        for walk, step in zip(*np.nonzero(walks.mask), strict=True):
            moves[:, walks.states[walk, step], walks.actions[walk, step]] += probs[:, walk]
        return np.log(np.where(moves > 0, moves, 1.0)).reshape(len(probs), -1)

    def log_probs(self, logits: np.ndarray) -> np.ndarray:
        if self.environment is None:
            return log_softmax(logits, axis=-1)
        walks = _Walks.of(self.environment)
        tables = logits.reshape(*logits.shape[:-1], *self.table_shape)
        moves = log_softmax(np.where(walks.legal, tables, -np.inf), axis=-1)[..., walks.states, walks.actions]
        of_walks = np.where(walks.mask, moves, 0.0).sum(axis=-1)
        ends_in = walks.outcomes == np.arange(len(self.rewards))[:, None]
        return logsumexp(np.where(ends_in, of_walks[..., None, :], -np.inf), axis=-1)

    @functools.cached_property
    def scale(self) -> float:
        """The largest speed over distributions spread over the simplex; 1 if nothing moves."""
        number = len(self.rewards) if self.environment is None else len(_Walks.of(self.environment).outcomes)
        distributions = np.concatenate([np.full((1, number), 1 / number), (0.7 * np.eye(number) + 0.3 / number)])
        speed = float(np.abs(self(self.logits_of(distributions, "distributions"))).max())
        return speed if speed > 1e-12 * np.abs(self.rewards).max() else 1.0

    def evaluate(self, function: Callable, logits: np.ndarray) -> np.ndarray:
        """Evaluates a function of (`Batch`, logits, rewards, reference logits) in float64.

        Raises:
          ValueError: the result is not finite.
        """
        reference = np.zeros(math.prod(self.table_shape))
        if self.reference is not None:
            (reference,) = self.logits_of([self.reference], "reference")
        batch = Batch(self.objective, self.group_size, self.off_policy, self.steps, self.environment)
        # Root finding evaluates fields thousands of times: a compiled function takes NumPy arrays fastest.
        arrays = (np.asarray(array, np.float64) for array in (logits, self.rewards, reference))
        with jax.enable_x64(True):
            values = np.asarray(function(batch, *arrays))
        if not np.isfinite(values).all():
            raise ValueError(
                f"the expected update is not finite for rewards {self.rewards} at logits {logits.tolist()}"
            )
        return values


class Batch(NamedTuple):
    """The fixed arguments of a compiled field; see `Field`."""

    objective: Objective
    group_size: int
    off_policy: OffPolicyAnswers | None
    steps: Steps | None
    environment: StateGraph | None

    def update(self, logits: jax.Array, rewards: jax.Array, reference: jax.Array) -> jax.Array:
        """The expected update `[D]`."""
        if (graph := self.environment) is not None:
            logits, reference = (
                table.reshape(graph.num_observations, graph.vocabulary_size) for table in (logits, reference)
            )
        update = expected_update(
            self.objective,
            logits,
            rewards,
            self.group_size,
            environment=graph,
            reference=reference,
            off_policy=self.off_policy,
            steps=self.steps,
            num_keys=1,
        )
        return update.ravel()


class _Walks(NamedTuple):
    """All M walks of an environment of S states and V actions."""

    states: np.ndarray
    """`[M, T]`, as `actions` and `mask`."""
    actions: np.ndarray
    mask: np.ndarray
    outcomes: np.ndarray
    """`[M]`, the outcome of each."""
    legal: np.ndarray
    """`[S, V]`, the legal actions in each state."""

    @classmethod
    @functools.cache
    def of(cls, environment: StateGraph) -> "_Walks":
        logits = jnp.zeros((environment.num_observations, environment.vocabulary_size))
        outcomes = environment.verify(every_trajectory(environment, logits)).outcome_id[0]
        legal = environment.legal(jnp.arange(environment.num_observations))
        return cls(*every_walk(environment), np.asarray(outcomes), np.asarray(legal))


@functools.lru_cache(PROGRAMS)
def _program(batch: Batch) -> Callable:
    # Without these emitters a field compiles in half the time and is evaluated as fast. Later versions of JAX have no
    # others, and refuse the option.
    has_choice = jax.default_backend() == "cpu" and jax.__version_info__ < (0, 11)
    options = {"xla_cpu_use_fusion_emitters": False} if has_choice else None
    return jax.jit(jax.vmap(batch.update, in_axes=(0, None, None)), compiler_options=options)


def _velocity(batch, logits, rewards, reference):
    return _program(batch)(logits, rewards, reference)


@dataclasses.dataclass(frozen=True)
class Flow:
    """Expected training from N starts.

    Attributes:
      times: `[T]`, updates x step size; the first is 0.
      log_probs: `[T, N, K]`, of the outcomes.
      finished: False if the integration stopped before its end, where the field is discontinuous.
    """

    times: np.ndarray
    log_probs: np.ndarray
    finished: bool

    @property
    def distributions(self) -> np.ndarray:
        """`[T, N, K]`."""
        return np.exp(self.log_probs)

    @property
    def exponents(self) -> np.ndarray:
        """`[N, K]`, d log p / d log t at the end: p changes as t to this power, 0 at rest.

        Over at least the last tenth of the time: with the velocity at the end, the integrator's error would be
        multiplied by t.
        """
        before = np.flatnonzero(self.times <= self.times[-1] / 1.1)[-1]
        if self.times[before] == 0:
            return np.zeros(self.log_probs.shape[1:])
        return (self.log_probs[-1] - self.log_probs[before]) / np.log(self.times[-1] / self.times[before])


@checked
def growth(distributions: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """d log p / dt `[..., K]` where dz/dt is `velocity`: v_i - sum_k p_k v_k."""
    return velocity - (distributions * velocity).sum(axis=-1, keepdims=True)


@checked
def follow(field: LogitField, distributions: Sequence[Sequence[float]] | np.ndarray, time: float = 1e6) -> Flow:
    """Integrates the field from distributions, as in `Field.logits_of`, to a time, or until nothing moves.

    In log-time and by backward differentiation, an implicit method that takes large steps where little changes.
    Relative tolerance 1e-6, absolute 1e-8.

    Raises:
      ValueError: a start is not a distribution of positive probabilities, or there is no time.
    """
    starts = field.logits_of(distributions, "distributions")
    tables = starts.reshape(-1, *field.table_shape)
    starts = (tables - tables.mean(axis=-1, keepdims=True)).reshape(starts.shape)
    if not time > FIRST_TIME:
        raise ValueError(f"time is {time}, it must be above {FIRST_TIME}, where the integration begins")

    def in_log_time(log_time, flat):
        return np.exp(log_time) * field(flat.reshape(starts.shape)).ravel()

    def jacobian(log_time, flat):
        # SciPy's own differences take steps relative to each logit, which are lost in rounding where one is near 0.
        blocks = np.exp(log_time) * field.jacobians(flat.reshape(starts.shape))
        return bsr_array((blocks, np.arange(len(starts)), np.arange(len(starts) + 1)))

    solver = BDF(in_log_time, np.log(FIRST_TIME), starts.ravel(), np.log(time), rtol=1e-6, atol=1e-8, jac=jacobian)
    times, logits, velocity = [0.0, FIRST_TIME], [starts, starts], field(starts)
    at_rest = AT_REST * field.scale
    while solver.status == "running" and np.abs(velocity).max() > at_rest:
        # In its first steps SciPy subtracts from memory that it has not written yet, and may find what is no number.
        with np.errstate(invalid="ignore"):
            solver.step()
        times.append(float(np.exp(solver.t)))
        logits.append(solver.y.reshape(starts.shape).copy())
        if len(times) > CRAWL_STEPS + 1:
            advanced = np.log(times[-1] / times[-CRAWL_STEPS - 1]), np.abs(logits[-1] - logits[-CRAWL_STEPS - 1]).max()
            if max(advanced) < CRAWL:
                break
        velocity = field(logits[-1])
    finished = solver.status == "finished" or bool(np.abs(velocity).max() <= at_rest)
    return Flow(np.array(times), field.log_probs(np.array(logits)), finished)


@checked
def train(
    field: LogitField, distributions: Sequence[Sequence[float]] | np.ndarray, step_size: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Distributions `[N, K]` of outcomes after expected training by z <- z + step_size * field(z), and exponents.

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
    logits, eighths = field.logits_of(distributions, "distributions"), []
    velocity = field(logits)
    for _ in range(8):
        total = np.zeros_like(logits)
        for _ in range(steps // 8):
            logits = logits + step_size * velocity
            total += logits
            if np.abs(velocity).max() > AT_REST * field.scale:
                velocity = field(logits)
        eighths.append(total / (steps // 8))
    half, end = field.log_probs(np.stack([eighths[3], (eighths[6] + eighths[7]) / 2]))
    return np.exp(end), (end - half) / np.log(2)
