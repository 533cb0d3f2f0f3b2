"""Offline RL on a grid with data in its left half only: a learned model guesses rewards in the right half, wrongly."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from experiments.pessimism.critic import Model, Pessimism, expected_visits, improved, q_values
from ipsrl.study.curves import Points

SIDE, COVERED = 10, 5
"""The side of the grid, and the number of columns that data cover."""
SLIP = 0.1
"""How often a random move replaces the chosen one."""
MOVES = np.array([(0, 1), (0, -1), (-1, 0), (1, 0)])
"""Up, down, left, right."""
STATES = SIDE * SIDE
START = 0
GOAL = STATES - SIDE + COVERED - 1
"""The start is the lower left corner, the goal the upper end of the last covered column."""
EPISODE = 50
"""Steps after which data start anew, anywhere in the covered half."""


@functools.cache
def grid() -> tuple[np.ndarray, np.ndarray]:
    """Transitions `[S, A, S]` and rewards `[S, A]`, the probability of entering the goal, which leads to the start."""
    rows, columns = np.divmod(np.arange(STATES), SIDE)
    places = np.stack([columns, rows], axis=1)
    moved_to = np.clip(places[:, None] + MOVES, 0, SIDE - 1)
    following = moved_to @ [1, SIDE]
    moved = np.eye(STATES)[following]
    at_random = moved.mean(axis=1, keepdims=True)
    transitions = (1 - SLIP) * moved + SLIP * at_random
    rewards = transitions[..., GOAL].copy()
    transitions[GOAL] = np.eye(STATES)[START]
    rewards[GOAL] = 0.0
    return transitions, rewards


def collected(random: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of observed transitions `[S, A, S]` and sums of rewards `[S, A]`.

    The behaviour policy moves at random half of the time, else up or right at equal odds. It starts anew, anywhere in
    the covered half, after `EPISODE` steps or when it leaves that half.
    """
    transitions, _ = grid()
    cumulative = transitions.cumsum(axis=-1)
    visits = np.zeros(transitions.shape)
    rewards = np.zeros(transitions.shape[:2])
    columns = random.integers(0, COVERED, samples)
    rows = random.integers(0, SIDE, samples)
    starts = columns + SIDE * rows
    at_random = random.uniform(size=samples) < 0.5
    moves = random.integers(0, 4, samples)
    actions = np.where(at_random, moves, random.choice([0, 3], samples))
    outcomes = random.uniform(size=samples)
    state, ends = START, 0
    for step, (action, outcome) in enumerate(zip(actions, outcomes, strict=True)):
        if step >= ends or state % SIDE >= COVERED:
            state = starts[step]
            ends = step + EPISODE
        following = np.searchsorted(cumulative[state, action], outcome, side="right")
        following = min(int(following), STATES - 1)
        visits[state, action, following] += 1
        rewards[state, action] += (following == GOAL) & (state != GOAL)
        state = following
    return visits, rewards


def learned(seed: int, samples: int, error: float) -> tuple[Model, np.ndarray]:
    """A model of data of one seed, and the numbers of visits `[S, A]`.

    Pairs without data are guessed: moves as intended, without slips, and normal rewards of this standard deviation.
    """
    random = np.random.default_rng(seed)
    visits, rewards = collected(random, samples)
    counts = visits.sum(axis=-1)
    guessed_rewards = error * random.normal(size=rewards.shape)
    safe = np.maximum(counts, 1)
    transitions = np.where(counts[..., None] > 0, visits / safe[..., None], grid()[0] > 0.5)
    means = np.where(counts > 0, rewards / safe, guessed_rewards)
    return Model(jnp.asarray(transitions), jnp.asarray(means)), counts


def runs(critic: Pessimism, seeds: Sequence[int], samples: int, error: float) -> Points:
    """The values of `measured` for each seed, for episodes that begin at `START`."""
    with jax.enable_x64(True):
        each = [learned(seed, samples, error) for seed in seeds]
        models, counts = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
        policies, values = jax.vmap(improved, (0, 0, None))(models, counts, critic)
        true = Model(*map(jnp.asarray, grid()))

        def evaluate(policy):
            visits = expected_visits(true, policy, critic.discount)
            return q_values(true, policy, critic.discount, visits)

        found = policies, values, jax.vmap(evaluate)(policies)
    measures = measured(*found, np.asarray(counts) > 0, [START])
    return Points([critic.steps], measures, seeds)


def measured(
    policies: ArrayLike,
    values: ArrayLike,
    exact: ArrayLike,
    seen: np.ndarray,
    starts: Sequence[int] | slice,
) -> dict[str, np.ndarray]:
    """Compares policies' Q with their true Q. Arrays are `[S, N, A]` at N places, `seen` marks pairs with data.

    Each value is `[S, 1]`.

    return: the true value of the learned policy, mean over places where it starts.
    gap: its Q there, averaged over its actions, above the true one; valid: whether that is not positive.
    visited, unvisited: Q above the true Q of the policy, mean over pairs with data, and over others, if there are any.
    below: the share of all pairs at which Q is not above the true one.
    """
    policies, values, exact = (np.asarray(each, float) for each in (policies, values, exact))
    above = values - exact

    def at_start(values):
        return (policies * values)[:, starts].sum(axis=-1).mean(axis=-1)

    def mean(chosen):
        return (above * chosen).sum(axis=(1, 2)) / chosen.sum(axis=(1, 2))

    gap = at_start(above)
    found = {
        "return": at_start(exact),
        "gap": gap,
        "valid": gap <= 0,
        "visited": mean(seen),
        "below": (above <= 0).mean(axis=(1, 2)),
    }
    if not seen.all():
        found["unvisited"] = mean(~seen)
    return {name: of_seeds.astype(float)[:, None] for name, of_seeds in found.items()}
