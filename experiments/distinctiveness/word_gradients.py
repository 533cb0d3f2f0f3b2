"""Runs on words that record how good the gradients of batches are, and whether answers pull apart."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.distinctiveness.gradient_clash import cosine, opposite_cosines
from experiments.words.shared_words import DecidedWords, SharedTable, Words
from experiments.words.stale_groups import (
    BATCHES,
    Grid,
    mean_so_far,
    points,
    std_so_far,
    train_on_old_groups,
)
from ipsrl.objectives.catalog.refinements import shared_tokens
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters
from ipsrl.rewards import NoisyVerifier
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.source import Groups
from ipsrl.structures import Rollouts
from ipsrl.study.curves import Points
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

ACCURACIES = ("accuracy", "hopeless")
"""Exact, over all prompts and over those that are hopeless at first."""
OF_RUN = "of the run"
Runs = Mapping[str, dict[str, np.ndarray]]
"""The result of `word_runs`."""


def gradient_measures(
    words: Words, policy: SharedTable, objective: Objective, of_sampler: Parameters, groups: Groups
) -> dict[str, Array]:
    """Measures the pulls A grad log pi of a batch's answers, under the policy that sampled it.

    Returns:
      `opposite_cosines`, where close answers have more than 6 of 10 letters in common; `kept`, the share of answers
      with an advantage; `norm`, of the mean pull; `alignment`, its cosine with the exact gradient of the accuracy.
    """

    def accuracy(parameters):
        return (words.distribution(policy, parameters) * words.reward_table()).sum(axis=-1).mean()

    keys = jax.random.split(jax.random.key(0), len(groups[1].rewards))
    rollouts = Rollouts.of(*groups, keys=keys)
    advantages = objective.weigh(rollouts, objective.init(words.sizes))[0].advantages[..., 0]
    gradients = policy.answer_gradients(of_sampler, groups[0])
    close = shared_tokens(rollouts.tokens, rollouts.token_mask) > 0.6
    batch = (gradients * advantages[..., None]).mean(axis=(0, 1))
    ascent = jax.grad(accuracy)(of_sampler)["weights"].ravel()
    found = {
        "kept": (advantages != 0).mean(),
        "alignment": cosine(batch, ascent),
        "norm": jnp.linalg.norm(batch),
    }
    return found | opposite_cosines(gradients, advantages, close)


def word_runs(
    words: DecidedWords,
    policy: SharedTable,
    grid: Grid,
    group_size: int,
    intervals: int,
    errors: float,
    objective: Objective,
    anchors: OffPolicyAnswers | None,
    weighed: Mapping[str, Objective] | None = None,
) -> Runs:
    """The measures of all runs of a grid, after each interval of BATCHES batches.

    Args:
      errors: rate of the grader's errors, for right and for wrong answers.
      anchors: answers that take the place of some of a group's.
      weighed: objectives that weigh the answers of these runs' batches, the last one of each interval.

    Returns:
      under OF_RUN, `ACCURACIES` after each interval; under the name of each weighed objective `gradient_measures`,
      means over the batches so far, and in place of the norm `norm_std` and `norm_max`, over the same batches; all
      `[S, 1, R, U]`.
    """
    training = TrainSettings(
        BATCHES * intervals,
        words.num_prompts,
        group_size,
        max_gradient_norm=None,
        wrappers=(anchors,) if anchors else (),
    )
    trainer = Trainer(words, policy, objective, training)

    def measure(parameters, of_sampler, groups):
        now = (words.distribution(policy, parameters) * words.reward_table()).sum(axis=-1)
        accuracies = {"accuracy": now.mean(), "hopeless": now[words.hopeless].mean()}
        return {OF_RUN: accuracies} | {
            name: gradient_measures(words, policy, weighing, of_sampler, groups)
            for name, weighing in (weighed or {}).items()
        }

    verifier = NoisyVerifier(errors, errors)
    measured, _ = train_on_old_groups(trainer, measure, BATCHES, grid, verifier)
    return {
        name: values if name == OF_RUN else _so_far(values) for name, values in measured.items()
    }


def with_gradients(
    own: Callable[[], Runs], weighing: Callable[[], Runs], name: str, grid: Grid
) -> Points:
    """The accuracies of an objective's own runs, and its gradients on the batches of those that weigh it, if any do."""
    return points(own()[OF_RUN] | weighing().get(name, {}), BATCHES, grid)


def _so_far(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    norms = values["norm"]
    means = {name: mean_so_far(of_run) for name, of_run in values.items() if name != "norm"}
    return means | {
        "norm_std": std_so_far(norms[..., None]),
        "norm_max": np.maximum.accumulate(norms, axis=-1),
    }
