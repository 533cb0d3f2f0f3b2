"""Updates of many bandit runs at once, beside one NumPy process with the same updates, specialised for bandits."""

import argparse
import dataclasses
import functools
import statistics
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measuring
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.objectives import make
from ipsrl.policies.tabular import Tabular
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

OBJECTIVES = {"grpo": False, "ips_grpo": True}
"""Objective -> whether rewards are divided by the outcome's share of the group."""

LEARNING_RATE, UPDATES = 0.1, 20


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(
        commands, "bandit", run, "time many bandit runs beside specialised NumPy code", runs=7
    )
    command.add_argument("--ensemble", type=int, default=4096, help="runs at once, by default %(default)s")
    command.add_argument("--arms", type=int, default=8, help="by default %(default)s")
    command.add_argument("--group", type=int, default=16, help="answers in an update, by default %(default)s")
    command.add_argument("--only", default=",".join(OBJECTIVES), help="objectives, by default %(default)s")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    names = measuring.chosen("only", arguments.only, OBJECTIVES)
    timings = time_bandits(names, arguments.ensemble, arguments.arms, arguments.group, arguments.runs)
    print(f"{arguments.ensemble} runs, {arguments.arms} arms, groups of {arguments.group}")
    print("objective  ipsrl updates/s  NumPy updates/s  ratio")
    for timing in timings:
        print(f"{timing.objective:9}  {timing.ours:15,.0f}  {timing.numpy:15,.0f}  {timing.ratio:5.2f}")
    return {"bandits": timings}


@dataclasses.dataclass(frozen=True)
class BanditTiming:
    """One objective.

    Attributes:
      objective: its name.
      ensemble, arms, group: sizes.
      ours, numpy: updates of groups per second, medians.
      ratio: ours to NumPy's, median over neighbouring runs.
    """

    objective: str
    ensemble: int
    arms: int
    group: int
    ours: float
    numpy: float
    ratio: float


def time_bandits(names: Sequence[str], ensemble: int, arms: int, group: int, runs: int) -> list[BanditTiming]:
    """Times `UPDATES` updates of each of `ensemble` runs, from the start.

    Raises:
      ValueError: there are too few runs, arms or answers.
    """
    measuring.check_runs(runs)
    for flag, value, least in (("ensemble", ensemble, 1), ("arms", arms, 2), ("group", group, 2)):
        if value < least:
            raise ValueError(f"--{flag} is {value}, it must be at least {least}")
    rewards = np.linspace(0.2, 1.0, arms, dtype=np.float32)
    generator, found = np.random.default_rng(0), []
    for name in names:
        ours = jax.jit(functools.partial(ensemble_of, name, tuple(rewards.tolist()), group, jnp.arange(ensemble)))

        def theirs(inverse=OBJECTIVES[name]):
            logits = np.zeros((ensemble, arms), np.float32)
            for _ in range(UPDATES):
                logits = numpy_update(generator, logits, rewards, group, inverse)
            return logits

        times = measuring.pairs(ours, theirs, runs)
        rates = [ensemble * UPDATES / statistics.median(column) for column in zip(*times, strict=True)]
        ratio = statistics.median(slow / fast for fast, slow in times)
        found.append(BanditTiming(name, ensemble, arms, group, *rates, ratio))
    return found


def ensemble_of(name: str, rewards: tuple[float, ...], group: int, seeds: jax.Array, updates: int = UPDATES) -> Any:
    """Logits `[S, 2, K]` before and after some updates by `train_ensemble`."""
    settings = TrainSettings(
        steps=updates,
        prompts_per_step=1,
        group_size=group,
        optimizer="sgd",
        learning_rate=LEARNING_RATE,
        max_gradient_norm=None,
    )
    trainer = Trainer(Bandit(rewards), Tabular(1, len(rewards)), make(name), settings)
    return train_ensemble(trainer, seeds, lambda parameters: parameters["logits"][0], updates)


def numpy_update(
    generator: np.random.Generator, logits: np.ndarray, rewards: np.ndarray, group: int, inverse: bool
) -> np.ndarray:
    """Logits `[S, K]` after one update by GRPO, each run with its own group.

    It exploits that answers of a bandit with the same outcome are equal: everything except sampling is done once for
    each arm, with the arm's share of the group.

    Args:
      rewards: `[K]`.
      inverse: divides the reward of an arm by its share of the group.
    """
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    bounds = np.cumsum(probabilities, axis=1)
    uniform = generator.random((len(logits), group), dtype=np.float32)
    # The number of bounds below a random number is its arm; the last bound is 1 up to rounding.
    arm = np.zeros(uniform.shape, np.intp)
    for k in range(logits.shape[1] - 1):
        arm += uniform > bounds[:, k, None]
    arm += (np.arange(len(logits)) * logits.shape[1])[:, None]
    shares = np.bincount(arm.ravel(), minlength=logits.size).reshape(logits.shape).astype(np.float32) / group
    values = np.broadcast_to(rewards, logits.shape)
    if inverse:
        values = np.divide(values, shares, out=np.zeros_like(shares), where=shares > 0)
    difference = values - (shares * values).sum(axis=1, keepdims=True)
    deviation = np.sqrt((shares * difference**2).sum(axis=1, keepdims=True))
    # Groups with a single outcome have no gradient.
    mixed = (shares > 0).sum(axis=1, keepdims=True) > 1
    weights = np.divide(shares * difference, deviation, out=np.zeros_like(shares), where=mixed)
    return logits + np.float32(LEARNING_RATE) * (weights - weights.sum(axis=1, keepdims=True) * probabilities)
