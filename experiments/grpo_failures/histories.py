"""Every step of many runs on a bandit with some right outcomes, for studies of what happens between updates."""

from collections.abc import Sequence

import jax
import numpy as np
from scipy.special import log_softmax
from scipy.stats import norm

from ipsrl import objectives
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular
from ipsrl.records.monitors import LowEntropy
from ipsrl.records.warning_log import initial_states, observe
from ipsrl.study.settings import EnsembleSettings
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer


def spread(right: int, arms: int) -> np.ndarray:
    """`[K]` logits: right outcomes, the first ones, at normal quantiles share 1/2, the wrong ones the rest evenly."""
    weights = np.exp(norm.ppf((np.arange(right) + 0.5) / right))
    of_right = weights / weights.sum() / 2
    wrong = arms - right
    return np.log([*of_right, *np.full(wrong, 0.5 / wrong)])


def measures(logits: np.ndarray, right: int) -> dict[str, np.ndarray]:
    """Measures logits `[..., K]`, where right outcomes come first; each value is `[...]`.

    entropy: of the policy, in nats.
    accuracy: probability of the right outcomes.
    effective: exp(H) of their shares.
    """
    log_probs = log_softmax(np.asarray(logits, np.float64), axis=-1)
    of_right = log_probs[..., :right]
    return {
        "entropy": _entropy(log_probs),
        "accuracy": np.exp(of_right).sum(axis=-1),
        "effective": np.exp(_entropy(log_softmax(of_right, axis=-1))),
    }


def _entropy(log_probs: np.ndarray) -> np.ndarray:
    return -(np.exp(log_probs) * log_probs).sum(axis=-1)


def logits_of_runs(
    objective: str,
    right: int,
    start: np.ndarray,
    settings: EnsembleSettings,
    seeds: Sequence[int] | None = None,
) -> np.ndarray:
    """`[S, steps + 1, K]` float32, the logits before each update and after the last, by gradient descent.

    Args:
      objective: its specification.
      right: how many outcomes pay 1, the first ones; the others pay 0.
      start: `[K]` logits of all runs, or `[S, K]`.
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
    starts = {"logits": of_runs[:, None]}
    return np.asarray(train_ensemble(trainer, seeds, _logits, initial_parameters=starts))


def silent_groups(
    logits: np.ndarray, right: int, group_size: int, windows: int
) -> dict[str, np.ndarray]:
    """Name -> `[S, windows]`, of histories `[S, U + 1, K]` of an objective that does nothing if all rewards are equal.

    silent: the share of groups that leave the policy exactly where it was.
    exact: its mean, p^G + (1 - p)^G for the policies of these steps.
    """
    accuracy = measures(logits[:, :-1], right)["accuracy"]
    silent = (logits[:, 1:] == logits[:, :-1]).all(axis=-1)
    exact = accuracy**group_size + (1 - accuracy) ** group_size

    def in_windows(of_steps: np.ndarray) -> np.ndarray:
        parts = np.array_split(of_steps, windows, axis=1)
        return np.stack([part.mean(axis=1) for part in parts], axis=1)

    return {"silent": in_windows(silent), "exact": in_windows(exact)}


def has_lost(logits: np.ndarray, right: int) -> np.ndarray:
    """`[...]` bool of `[..., K]`: at most half of the right outcomes beyond the first are left; never of one alone."""
    beyond = measures(logits, right)["effective"] - 1
    return (beyond <= (right - 1) / 2) & (right > 1)


def _logits(parameters: Parameters) -> jax.Array:
    return parameters["logits"][0]


def calls(logits: np.ndarray, right: int, limit: float) -> np.ndarray:
    """`[S, U]` bool, whether the monitor `low_entropy` fires below a limit, by the entropy of policies `[S, U, K]`."""
    return firing(LowEntropy(below=limit), measures(logits, right)["entropy"])


def firing(monitor: LowEntropy, entropy: np.ndarray) -> np.ndarray:
    """`[S, U]` bool, whether a monitor fires after each step of each run."""
    found = np.zeros(entropy.shape, bool)
    for run, course in enumerate(entropy):
        states = initial_states({"only": monitor})
        for step, value in enumerate(course):
            states, _, _ = observe({"only": monitor}, states, {"token_entropy": float(value)})
            found[run, step] = states["only"].firing
    return found
