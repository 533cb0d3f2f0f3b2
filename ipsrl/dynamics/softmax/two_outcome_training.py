"""Sampled training of a softmax over two outcomes: thousands of runs as one program, millions of updates a second.

Most objectives depend on a group of G samples only through the counts of the outcomes. So an objective is a table with
a row for each count n of outcome 1, computed once by the objective's own code (`advantage_weighted_frequencies`), and a
run is

    n ~ Binomial(G, p_1),    z_i <- z_i + h (push_i(n) - p_i (push_1(n) + push_2(n))),    p = softmax(z),

of which only u = z_1 - z_2 = ln(p_1 / p_2) must be stored: u <- u + 2 h (p_2 push_1(n) - p_1 push_2(n)). This equals
`ipsrl.training.ensemble` with plain gradient descent, one prompt and a table of logits; tests compare both with the
same mean field. It is for statistics over settings and seeds for which the general loop is too slow.
"""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked, positive
from ipsrl.distributed.mesh import DATA
from ipsrl.dynamics.trajectories import every_trajectory
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.objectives.objective import Objective
from ipsrl.rewards import RewardTable, rewarded
from ipsrl.structures import PolicyScores, Rollouts, Sizes

TWO_ARMS = Bandit((0.0, 0.0))
"""Says what the outcomes are; the rewards are those of a cell."""

CHECK_EVERY = 256
"""Steps after which `first_passage` checks whether any run continues."""

LARGEST_GROUP = 125
"""Largest group that can be sampled: `sample_count` starts from a probability of 2^-G, still a normal float32."""

MOST_STEPS = 2**31 - 1 - CHECK_EVERY
"""Most steps that `first_passage` can count, in 32 bits."""


@dataclasses.dataclass(frozen=True)
class Cell(Checked):
    """Settings shared by all runs of a cell; the runs differ in their seed.

    Attributes:
      objective: one that `advantage_weighted_frequencies` accepts.
      rewards: of the two outcomes.
      group_size: G, for sampled runs at most `LARGEST_GROUP`.
      step_size: h of plain gradient descent.
      log_ratio: ln(p_1 / p_2) at the start.
    """

    objective: Objective
    rewards: tuple[float, float]
    group_size: int = positive()
    step_size: float = positive()
    log_ratio: float = 0.0


@dataclasses.dataclass(frozen=True)
class Trace:
    """Results of runs, for C cells, S seeds and T intervals of steps; float32.

    Attributes:
      log_ratio: `[C, S, T]`, ln(p_1 / p_2) at the end of each interval.
      second: `[C, S, T]`, mean of p_2 over the policies after the steps of each interval.
    """

    log_ratio: np.ndarray
    second: np.ndarray


@checked
def advantage_weighted_frequencies(objective: Objective, rewards: tuple[float, float], group_size: int) -> np.ndarray:
    """`[G + 1, 2]`: the push on each outcome's log-probability by a group with n = 0 .. G samples of outcome 1.

    push_i = - sum over the samples of outcome i of d loss / d log pi(sample), by differentiating the group's loss from
    the objective's own code, at the policy that sampled it: usually phat_i A_i, with A the advantage.

    Raises:
      ValueError: the objective is not a table of counts: it needs more than rewards and outcomes, carries state or
        parameters, has penalties or several steps, or weighs a group by the policy's probabilities; or the group is too
        small.
    """
    return _weighted_frequencies((objective,), rewards, group_size)[0]


@checked
def train(
    cells: Sequence[Cell], seeds: Sequence[int], steps: int, record_every: int, mesh: Mesh | None = None
) -> Trace:
    """Trains every cell with every seed, all at once.

    A run is determined by its seed and the number of its cell, not by the number of seeds or devices.

    Args:
      cells: C settings.
      seeds: S numbers below 2^31.
      steps: updates of each run, a multiple of `record_every`.
      record_every: steps in an interval of `Trace`.
      mesh: runs are divided over its axis "data"; by default they are all on one device.

    Raises:
      ValueError: `steps` is not a multiple of `record_every`, a group is larger than `LARGEST_GROUP`, or an objective
        is refused by `advantage_weighted_frequencies`.
    """
    if steps < 1 or record_every < 1 or steps % record_every:
        raise ValueError(f"steps is {steps}, it must be a positive multiple of record_every, {record_every}")
    nowhere = np.zeros(len(cells))
    runs, tables = _placed(cells, seeds, mesh, nowhere, nowhere)
    log_ratio, second = _train(runs, tables, steps // record_every, record_every)

    def by_cell(values):
        return np.moveaxis(_by_cell(values, cells, seeds), 0, -1)

    return Trace(by_cell(log_ratio), by_cell(second))


def first_passage(
    cells: Sequence[Cell],
    seeds: Sequence[int],
    low: float | Sequence[float],
    high: float | Sequence[float],
    most_steps: int,
    mesh: Mesh | None = None,
) -> np.ndarray:
    """`[C, S]`, steps until u = ln(p_1 / p_2) is no longer strictly between `low` and `high`; inf after `most_steps`.

    The program ends when no run is left in the range. Runs are those of `train`.

    Args:
      cells, seeds, mesh: as in `train`.
      low, high: numbers, or one for each cell.
      most_steps: number of steps after which it ends in any case, at most `MOST_STEPS`.

    Raises:
      ValueError: `most_steps` is too large, a run does not start between `low` and `high`, a group is larger than
        `LARGEST_GROUP`, or an objective is refused by `advantage_weighted_frequencies`.
    """
    if most_steps > MOST_STEPS:
        raise ValueError(f"most_steps is {most_steps:.3g}, it must be at most {MOST_STEPS}")
    bounds = np.broadcast_to(np.asarray(low), len(cells)), np.broadcast_to(np.asarray(high), len(cells))
    for cell, lower, upper in zip(cells, *bounds, strict=True):
        if not lower < cell.log_ratio < upper:
            raise ValueError(f"a run that starts at {cell.log_ratio} is not between {lower} and {upper}")
    runs, tables = _placed(cells, seeds, mesh, *bounds)
    left_after = _by_cell(_first_passage(runs, tables, most_steps), cells, seeds).astype(np.float64)
    return np.where(left_after > most_steps, np.inf, left_after)


@checked
def sample_count(uniform: Array, log_ratio: Array, group_size: Array, largest: int) -> Array:
    """Count of outcome 1 in a group: Binomial(G, p_1) with p_1 = 1 / (1 + exp(-u)), by inversion, in float32.

    The rarer outcome, p <= 1/2, is counted: its count m is the number of k with uniform < P(m > k). So its rare events
    belong to the smallest uniform numbers, of which float32 has many: the probability of a rare outcome in the group is
    right to a relative 1e-6 and resolved down to 2^-32. Elsewhere P(m > k) is right to G times 1e-7.

    Args:
      uniform: `[R]` in (0, 1].
      log_ratio: `[R]`, u.
      group_size: `[R]` float32, G, at most `LARGEST_GROUP`: beyond it (1 - p)^G underflows float32.
      largest: at least the largest G; the number of terms of the recursion.

    Returns:
      `[R]` int32.
    """
    odds = jnp.exp(-jnp.abs(log_ratio))
    log_chance = -group_size * jnp.log1p(odds)
    chance, more = jnp.exp(log_chance), -jnp.expm1(log_chance)  # P(m = k) and P(m > k), from k = 0
    count = jnp.zeros_like(group_size)
    for k in range(largest):
        count += uniform < more
        chance *= (group_size - k) * (1 / (k + 1)) * odds
        more -= chance
    # The rounding error of P(m > G) must not count.
    count = jnp.minimum(count, group_size)
    return jnp.where(log_ratio > 0, group_size - count, count).astype(jnp.int32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Runs:
    """R runs, all arrays `[R]`: their positions in the tables, and their fields of `Cell`."""

    keys: Array
    cell: Array
    group_size: Array
    step_size: Array
    log_ratio: Array
    low: Array
    high: Array


def _weighted_frequencies(
    objectives: tuple[Objective, ...], rewards: tuple[float, float], group_size: int
) -> list[np.ndarray]:
    """`advantage_weighted_frequencies` of several objectives, as one program, which compiles three times as fast."""
    if np.shape(rewards) != (2,):
        raise ValueError(f"rewards is {rewards}, it must be one number for each of two outcomes")
    for objective in objectives:
        objective.check(frozenset(), group_size, TWO_ARMS.sizes)
        if objective.penalties or objective.num_steps > 1:
            raise ValueError(
                "an objective with penalties or several steps is not a table of counts: use train_ensemble"
            )
        if jax.tree.leaves((objective.init(TWO_ARMS.sizes), objective.init_parameters(TWO_ARMS.sizes))):
            raise ValueError(
                "an objective that carries state or parameters is not a table of counts: use train_ensemble"
            )

    members = (np.arange(group_size) >= np.arange(group_size + 1)[:, None]).astype(int)
    weighted_frequencies = []
    # Under two policies that prefer different outcomes, to check that the policy does not matter.
    by_policy = (_frequencies_of_samples(_groups(rewards, u, members), objectives, TWO_ARMS.sizes) for u in (-1.0, 1.5))
    for here, there in zip(*by_policy, strict=True):
        if not np.allclose(here, there, rtol=1e-5, atol=1e-6 * np.abs(here).max()):
            raise ValueError(
                "an objective that weighs groups by the policy is not a table of counts: use train_ensemble"
            )
        weighted_frequencies.append(np.stack([(here * (members == outcome)).sum(axis=1) for outcome in (0, 1)], axis=1))
    return weighted_frequencies


@functools.partial(jax.jit, static_argnames=("objectives", "sizes"))
def _frequencies_of_samples(groups: Rollouts, objectives: tuple[Objective, ...], sizes: Sizes) -> list[Array]:
    """For each objective `[N, G]`: -d loss / d log pi(sample) in each group of `groups` `[N, 1, G, ...]`."""

    def of_group(objective, rollouts):
        def loss(log_probs):
            output = objective(PolicyScores(log_probs, rollouts.behaviour_entropy), rollouts, sizes)
            return output.loss_sum / output.count

        return -jax.grad(loss)(rollouts.behaviour_log_probs)[0, :, 0]

    return [jax.vmap(functools.partial(of_group, objective))(groups) for objective in objectives]


def _groups(rewards: tuple[float, float], log_ratio: float, members: np.ndarray) -> Rollouts:
    """Groups `[N, 1, G, ...]` under the policy of `log_ratio`; `members` `[N, G]` are their outcomes."""
    arms = every_trajectory(TWO_ARMS, jnp.array([[log_ratio, 0.0]]))
    reward = RewardTable(jnp.asarray([rewards], jnp.float32))
    outcomes, _ = rewarded(reward, arms, TWO_ARMS.verify(arms), jax.random.key(0))
    both = dataclasses.replace(Rollouts.of(arms, outcomes), prompt_index=None)
    groups = jax.tree.map(lambda leaf: np.swapaxes(np.asarray(leaf)[:, members], 0, 1), both)
    return dataclasses.replace(groups, prompt_index=np.zeros((len(members), 1), np.int32))


def _placed(
    cells: Sequence[Cell], seeds: Sequence[int], mesh: Mesh | None, low: np.ndarray, high: np.ndarray
) -> tuple[_Runs, Array]:
    """All runs, cell by cell, divided over devices, and the tables `[C, largest G + 1, 2]` of the cells."""
    largest = max(cell.group_size for cell in cells)
    if largest > LARGEST_GROUP:
        raise ValueError(f"group_size is {largest}, at most {LARGEST_GROUP} can be sampled here: use train_ensemble")
    tables = np.zeros((len(cells), 1 + largest, 2), np.float32)
    alike: dict[tuple, dict[Objective, list[int]]] = {}
    for number, cell in enumerate(cells):
        alike.setdefault((cell.rewards, cell.group_size), {}).setdefault(cell.objective, []).append(number)
    for (rewards, group_size), numbers in alike.items():
        for weighted_frequencies, cells_of_one in zip(
            _weighted_frequencies(tuple(numbers), rewards, group_size), numbers.values(), strict=True
        ):
            tables[cells_of_one, : group_size + 1] = weighted_frequencies

    number = np.repeat(np.arange(len(cells)), len(seeds))
    devices = 1 if mesh is None else mesh.shape[DATA]
    # The last runs are repeated if the number of runs is not divisible by the devices.
    number = np.pad(number, (0, -len(number) % devices), mode="edge")

    def of_runs(values):
        return np.asarray(values, np.float32)[number]

    keys = jax.vmap(lambda seed, cell: jax.random.fold_in(jax.random.key(seed), cell))
    runs = _Runs(
        keys=keys(np.resize(np.asarray(seeds), len(number)), number),
        cell=jnp.asarray(number),
        group_size=of_runs([cell.group_size for cell in cells]),
        step_size=of_runs([cell.step_size for cell in cells]),
        log_ratio=of_runs([cell.log_ratio for cell in cells]),
        low=of_runs(low),
        high=of_runs(high),
    )
    if mesh is None:
        return jax.tree.map(jnp.asarray, runs), jnp.asarray(tables)
    everywhere = jax.device_put(tables, NamedSharding(mesh, PartitionSpec()))
    return jax.device_put(runs, NamedSharding(mesh, PartitionSpec(DATA))), everywhere


def _step(runs: _Runs, tables: Array, step: Array, log_ratio: Array, lost: Array) -> tuple[Array, Array]:
    """u after one update, and its rounding error; `lost`, that of the update before, is added back."""
    bits = jax.vmap(lambda key: jax.random.bits(jax.random.fold_in(key, step)))(runs.keys)
    uniform = (bits.astype(jnp.float32) + 0.5) * 2.0**-32
    count = sample_count(uniform, log_ratio, runs.group_size, tables.shape[1] - 1)
    first, second = jnp.moveaxis(tables[runs.cell, count], -1, 0)
    change = 2 * runs.step_size * (jax.nn.sigmoid(-log_ratio) * first - jax.nn.sigmoid(log_ratio) * second) + lost
    moved = log_ratio + change
    return moved, change - (moved - log_ratio)


@functools.partial(jax.jit, static_argnames=("intervals", "record_every"))
def _train(runs: _Runs, tables: Array, intervals: int, record_every: int) -> tuple[Array, Array]:
    def one_step(carry, step):
        log_ratio, lost, second = carry
        log_ratio, lost = _step(runs, tables, step, log_ratio, lost)
        return (log_ratio, lost, second + jax.nn.sigmoid(-log_ratio)), None

    def one_interval(carry, interval):
        steps = interval * record_every + jnp.arange(record_every)
        (log_ratio, lost, second), _ = jax.lax.scan(one_step, (*carry, jnp.zeros_like(runs.log_ratio)), steps)
        return (log_ratio, lost), (log_ratio, second / record_every)

    start = (runs.log_ratio, jnp.zeros_like(runs.log_ratio))
    return jax.lax.scan(one_interval, start, jnp.arange(intervals))[1]


@jax.jit
def _first_passage(runs: _Runs, tables: Array, most_steps: Array) -> Array:
    def one_step(carry, step):
        log_ratio, lost, left_after, inside = carry
        log_ratio, lost = _step(runs, tables, step, log_ratio, lost)
        # The step that leaves the range counts.
        left_after += inside
        inside &= (runs.low < log_ratio) & (log_ratio < runs.high)
        return (log_ratio, lost, left_after, inside), None

    def some_steps(carry):
        begin, state = carry
        state, _ = jax.lax.scan(one_step, state, begin + jnp.arange(CHECK_EVERY))
        return begin + CHECK_EVERY, state

    def goes_on(carry):
        begin, (_, _, _, inside) = carry
        return (begin < most_steps) & inside.any()

    start = (
        runs.log_ratio,
        jnp.zeros_like(runs.log_ratio),
        jnp.zeros_like(runs.cell),
        jnp.ones_like(runs.cell, bool),
    )
    _, (_, _, left_after, inside) = jax.lax.while_loop(goes_on, some_steps, (0, start))
    return jnp.where(inside, jnp.iinfo(jnp.int32).max, left_after)


def _by_cell(values: Array, cells: Sequence[Cell], seeds: Sequence[int]) -> np.ndarray:
    """`[..., R]` -> `[..., C, S]`, without padding."""
    of_runs = np.asarray(values)[..., : len(cells) * len(seeds)]
    return of_runs.reshape(*of_runs.shape[:-1], len(cells), len(seeds))
