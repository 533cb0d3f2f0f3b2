"""Every step of many runs on a bandit with some right outcomes, for studies of what happens between updates."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from scipy.special import log_softmax
from scipy.stats import norm

from ipsrl import objectives
from ipsrl.environments.bandit import Bandit
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular
from ipsrl.records.monitors import PREFIX, LowEntropy, Monitor
from ipsrl.records.tidy import Records
from ipsrl.records.warning_log import initial_states, observe
from ipsrl.study.claims import Claim, above, at_each, below, equal_within
from ipsrl.study.numbers import Number, share
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

WATCHED = {
    f"of runs that {verb} their {right} right outcomes": (right, lost)
    for verb, lost in (("lose", 1), ("keep", 0))
    for right in (2, 4)
} | {"of runs with 1 right outcome, none to lose,": (1, 0)}
"""Runs that a monitor watches -> their right outcomes, and whether these are lost at the end."""


def spread(right: int, arms: int) -> np.ndarray:
    """`[K]` logits: right outcomes, the first ones, at normal quantiles share 1/2, the wrong ones the rest evenly."""
    of_right = np.exp(norm.ppf((np.arange(right) + 0.5) / right))
    return np.log([*(of_right / of_right.sum() / 2), *np.full(arms - right, 0.5 / (arms - right))])


def measures(logits: np.ndarray, right: int) -> dict[str, np.ndarray]:
    """From `[..., K]` logits, of which the first are of right outcomes: each `[...]`.

    entropy: of the policy, in nats.
    accuracy: probability of the right outcomes.
    effective: exp(H) of their shares.
    """
    log_probs = log_softmax(np.asarray(logits, np.float64), axis=-1)
    shares = log_softmax(log_probs[..., :right], axis=-1)
    entropy, of_right = (-(np.exp(logs) * logs).sum(axis=-1) for logs in (log_probs, shares))
    return {
        "entropy": entropy,
        "accuracy": np.exp(log_probs[..., :right]).sum(axis=-1),
        "effective": np.exp(of_right),
    }


def logits_of_runs(
    objective: str, right: int, start: np.ndarray, settings: Any, seeds: Sequence[int] | None = None
) -> np.ndarray:
    """`[S, steps + 1, K]` float32, the logits before each update and after the last, by gradient descent.

    Args:
      objective: its specification.
      right: how many outcomes pay 1, the first ones; the others pay 0.
      start: `[K]` logits of all runs, or `[S, K]`.
      settings: have `EnsembleSettings`' steps, group_size and learning_rate.
      seeds: S of them; those of the settings by default.
    """
    seeds = np.asarray(settings.seeds if seeds is None else seeds)
    training = TrainSettings(
        steps=settings.steps,
        prompts_per_step=1,
        group_size=settings.group_size,
        optimizer="sgd",
        learning_rate=settings.learning_rate,
        max_gradient_norm=None,
    )
    arms = np.shape(start)[-1]
    bandit = Bandit((1.0,) * right + (0.0,) * (arms - right))
    trainer = Trainer(bandit, Tabular(1, arms), objectives.make(objective), training)
    of_runs = np.broadcast_to(np.asarray(start, np.float32), (len(seeds), arms))
    return np.asarray(
        train_ensemble(trainer, seeds, _logits, initial_parameters={"logits": of_runs[:, None]})
    )


def silent_groups(
    logits: np.ndarray, right: int, group_size: int, windows: int
) -> dict[str, np.ndarray]:
    """Name -> `[S, windows]`, of histories `[S, U + 1, K]` of an objective that does nothing if all rewards are equal.

    silent: the share of groups that leave the policy exactly where it was.
    exact: its mean, p^G + (1 - p)^G for the policies of these steps.
    """
    accuracy = measures(logits[:, :-1], right)["accuracy"]
    silent = (logits[:, 1:] == logits[:, :-1]).all(axis=-1)
    found = {"silent": silent, "exact": accuracy**group_size + (1 - accuracy) ** group_size}
    parts = {name: np.array_split(of_steps, windows, axis=1) for name, of_steps in found.items()}
    return {
        name: np.stack([part.mean(axis=1) for part in of], axis=1) for name, of in parts.items()
    }


def has_lost(logits: np.ndarray, right: int) -> np.ndarray:
    """`[...]` bool of `[..., K]`: at most half of the right outcomes beyond the first are left; never of one alone."""
    return (measures(logits, right)["effective"] - 1 <= (right - 1) / 2) & (right > 1)


def _logits(parameters: Parameters) -> jax.Array:
    return parameters["logits"][0]


def calls(logits: np.ndarray, right: int, limit: float) -> np.ndarray:
    """`[S, U]` bool, whether the monitor `low_entropy` fires below a limit, by the entropy of policies `[S, U, K]`."""
    return firing(LowEntropy(below=limit), {"token_entropy": measures(logits, right)["entropy"]})


def firing(monitor: Monitor, metrics: Mapping[str, np.ndarray]) -> np.ndarray:
    """`[S, U]` bool, whether a monitor fires after each step of each run; it reads the metrics, name -> `[S, U]`."""
    monitors, found = {"only": monitor}, np.zeros(next(iter(metrics.values())).shape, bool)
    for run in range(found.shape[0]):
        states = initial_states(monitors)
        for step in range(found.shape[1]):
            record = {name: float(values[run, step]) for name, values in metrics.items()}
            states, marks, _ = observe(monitors, states, record)
            found[run, step] = marks.get(PREFIX + "only", 0.0) > 0
    return found


def alarms(limit: float) -> dict[str, Claim]:
    """Whether, under each objective, the monitor calls over 0.9 of runs that lose outcomes, and under 0.1 of others.

    Not of all objectives together: that share is set by which of them are trained.
    """

    def claim(right: int, lost: int) -> Claim:
        held = above(share("called"), 0.9) if lost else below(share("called"), 0.1)
        return at_each("objective", held, part="monitor", limit=limit, right=right, lost=lost)

    few = {lost: "over 0.9" if lost else "under 0.1" for lost in (0, 1)}
    return {
        f"{runs} the monitor calls {few[lost]}, under each objective": claim(right, lost)
        for runs, (right, lost) in WATCHED.items()
    }


def alarm_shares(limit: float) -> dict[str, Number]:
    """The same shares under GRPO."""
    labels = {"part": "monitor", "limit": limit, "objective": "grpo"}
    return {
        f"{runs.rstrip(',')} under GRPO, share called": share(
            "called", right=right, lost=lost, **labels
        )
        for runs, (right, lost) in WATCHED.items()
    }


def as_computed(rows: Records) -> bool | None:
    """Whether as many groups are silent as computed, within 0.01 in the mean over training, paired by seed."""
    return equal_within(*(rows.curve(name)[1].mean(axis=1) for name in ("silent", "exact")), 0.01)
