"""The task and the report of every contender of the hypergrid benchmark, in NumPy: the same grid and exact distance."""

import dataclasses
import functools
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

R0, R1, R2 = 0.001, 0.5, 2.0
"""Reward of every cell, of those near the edges, and of the modes: sparse, as in the baselines of gfnx."""


@dataclasses.dataclass(frozen=True)
class Task:
    """The task; a contender reads it from its only argument, as JSON.

    The first coordinate is the most significant digit of a cell's number; action d raises coordinate d, the last one
    stops.

    Attributes:
      dimensions, side: of the grid.
      batch: trajectories in an update.
      updates: in a step of the protocol.
      seed: of all random numbers.
      objective: of ipsrl; the others use only trajectory balance.
    """

    dimensions: int
    side: int
    batch: int
    updates: int
    seed: int = 0
    objective: str = "trajectory_balance"
    learning_rate: float = 1e-3

    @classmethod
    def read(cls, text: str) -> "Task":
        """Undoes `write`."""
        return cls(**json.loads(text))

    def write(self) -> str:
        """The task as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @functools.cached_property
    def coordinates(self) -> np.ndarray:
        """`[S, dimensions]` of all cells."""
        return np.indices((self.side,) * self.dimensions).reshape(self.dimensions, -1).T

    @functools.cached_property
    def target(self) -> np.ndarray:
        """`[S]`, the distribution of final cells proportional to reward."""
        distance = np.abs(self.coordinates / (self.side - 1) - 0.5)
        rewards = R0 + R1 * (distance > 0.25).all(axis=-1) + R2 * ((distance > 0.3) & (distance < 0.4)).all(axis=-1)
        return rewards / rewards.sum()

    def probs(self, logits: np.ndarray) -> np.ndarray:
        """`[S]`, the exact distribution of final cells of a policy with logits `[S, dimensions + 1]`."""
        legal = np.concatenate([self.coordinates < self.side - 1, np.ones((len(logits), 1), bool)], axis=1)
        logits = np.where(legal, logits.astype(np.float64), -np.inf)
        probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        level = self.coordinates.sum(axis=1)
        place = self.side ** np.arange(self.dimensions - 1, -1, -1)
        mass = np.zeros(len(logits))
        mass[0] = 1.0
        # All walks into a cell have the length of its coordinates' sum: cells with the same sum are computed together.
        order = np.argsort(level, kind="stable")
        for cells in np.split(order, np.flatnonzero(np.diff(level[order])) + 1):
            for d in range(self.dimensions):
                movers = cells[legal[cells, d]]
                mass[movers + place[d]] += mass[movers] * probabilities[movers, d]
        return mass * probabilities[:, -1]

    def measured(self, logits: np.ndarray) -> dict[str, float]:
        """Total variation of the policy's distribution from the target, and mean number of actions, stop included."""
        probs = self.probs(np.asarray(logits))
        return {
            "total_variation": float(np.abs(probs - self.target).sum() / 2),
            "mean_length": float(probs @ (self.coordinates.sum(axis=1) + 1)),
        }


def steps(task: Task, train: Callable[[], None], logits: Callable[[], np.ndarray]) -> Callable[[], dict[str, Any]]:
    """The step of a contender: several timed updates, and then the policy's distance.

    The first step makes no update: it measures the start-up, and the initial distance.

    Args:
      train: makes `task.updates` updates, and waits until they are done.
      logits: of the policy for every cell, `[S, dimensions + 1]`.
    """
    begun = False

    def step():
        nonlocal begun
        started = time.perf_counter()
        if begun:
            train()
        seconds = time.perf_counter() - started
        begun = True
        return {"seconds": seconds, **task.measured(logits())}

    return step
