"""A grid of which data cover the left half: a learned model guesses rewards in the right half, and is wrong there."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from experiments.pessimism.critic import Model, Pessimism, improved, learned_model, q_values
from ipsrl.study.curves import Points

SIDE, COVERED, SLIP = 10, 5, 0.1
"""Of the grid; columns that data cover; how often a random move replaces the chosen one."""
MOVES = np.array([[0, 1], [0, -1], [-1, 0], [1, 0]])
"""Up, down, left, right."""
STATES, START, GOAL = SIDE * SIDE, 0, SIDE * SIDE - SIDE + COVERED - 1
"""The start is the lower left corner, the goal the upper end of the last covered column."""
EPISODE = 50
"""Steps after which data start anew, anywhere in the covered half."""


@functools.cache
def grid() -> tuple[np.ndarray, np.ndarray]:
    """Transitions `[S, A, S]` and rewards `[S, A]`, the probability of entering the goal, which leads to the start."""
    places = np.stack([np.arange(STATES) % SIDE, np.arange(STATES) // SIDE], axis=1)
    following = np.clip(places[:, None] + MOVES, 0, SIDE - 1) @ np.array([1, SIDE])
    moved = np.eye(STATES)[following]
    transitions = (1 - SLIP) * moved + SLIP * moved.mean(axis=1, keepdims=True)
    rewards = transitions[..., GOAL].copy()
    transitions[GOAL], rewards[GOAL] = np.eye(STATES)[START], 0.0
    return transitions, rewards


def collected(random: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of observed transitions `[S, A, S]` and sums of rewards `[S, A]`.

    The behaviour policy moves at random half of the time, else up or right at equal odds. It starts anew, anywhere in
    the covered half, after `EPISODE` steps or when it leaves that half.
    """
    transitions, _ = grid()
    cumulative = transitions.cumsum(axis=-1)
    visits, rewards = np.zeros(transitions.shape), np.zeros(transitions.shape[:2])
    starts = random.integers(0, COVERED, samples) + SIDE * random.integers(0, SIDE, samples)
    actions = np.where(
        random.uniform(size=samples) < 0.5,
        random.integers(0, 4, samples),
        random.choice([0, 3], samples),
    )
    state, ends = START, 0
    for step, (action, outcome) in enumerate(
        zip(actions, random.uniform(size=samples), strict=True)
    ):
        if step >= ends or state % SIDE >= COVERED:
            state, ends = starts[step], step + EPISODE
        following = min(
            int(np.searchsorted(cumulative[state, action], outcome, side="right")), STATES - 1
        )
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
    moves = (grid()[0] > 0.5).astype(float)
    guessed = moves / np.maximum(1, moves.sum(axis=-1, keepdims=True))
    return learned_model(
        visits, rewards, guessed, error * random.normal(size=rewards.shape)
    ), visits.sum(axis=-1)


def runs(critic: Pessimism, seeds: Sequence[int], samples: int, error: float) -> Points:
    """Of each seed:

    return: the true value of the learned policy at the start.
    gap: its Q, at the start and averaged over its actions, above the true one; valid: whether that is not positive.
    visited, unvisited: Q above the true Q of the policy, mean over pairs with data, and over others.
    below: the share of all pairs at which Q is not above the true one.
    """
    with jax.enable_x64(True):
        each = [learned(seed, samples, error) for seed in seeds]
        models = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(model for model, _ in each))
        counts = jnp.asarray(np.stack([visits for _, visits in each]))
        policies, values = jax.vmap(lambda *of_seed: improved(*of_seed, critic))(models, counts)
        true = Model(*map(jnp.asarray, grid()))
        exact = jax.vmap(lambda policy: q_values(true, policy, critic.discount))(policies)
        policies, values, exact, counts = (
            np.asarray(array) for array in (policies, values, exact, counts)
        )
    above, seen = values - exact, counts > 0
    gap = (policies * above)[:, START].sum(axis=1)
    found = {
        "return": (policies * exact)[:, START].sum(axis=1),
        "gap": gap,
        "valid": gap <= 0,
        "visited": (above * seen).sum(axis=(1, 2)) / seen.sum(axis=(1, 2)),
        "unvisited": (above * ~seen).sum(axis=(1, 2)) / (~seen).sum(axis=(1, 2)),
        "below": (above <= 0).mean(axis=(1, 2)),
    }
    return Points(
        [critic.steps], {name: np.asarray(of, float)[:, None] for name, of in found.items()}, seeds
    )
