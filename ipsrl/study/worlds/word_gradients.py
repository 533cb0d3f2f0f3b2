"""Runs on words that record how good the gradients of batches are, and whether answers pull apart."""

from typing import Any

import jax
import numpy as np
from jax import Array

from ipsrl.measures.gradient_clash import cosine, opposite_cosines
from ipsrl.objectives.advantages.distinct_pairs import shared_tokens
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters
from ipsrl.rewards import NoisyVerifier
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.source import Groups
from ipsrl.structures import Rollouts
from ipsrl.study.curves import Points
from ipsrl.study.worlds.shared_words import DecidedWords, SharedTable, Words
from ipsrl.study.worlds.stale_groups import BATCHES, mean_so_far, points, std_so_far, train_on_old_groups
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

ACCURACIES = ("accuracy", "hopeless")
"""Exact, over all prompts and over those that are hopeless at first."""


def gradient_measures(
    words: Words, policy: SharedTable, objective: Objective, of_sampler: Parameters, groups: Groups
) -> dict[str, Array]:
    """Of the pulls A grad log pi of a batch's answers, under the policy that sampled it.

    Returns:
      `opposite_cosines`, where close answers have more than 6 of 10 letters in common; `kept`, the share of answers
      with an advantage; `alignment`, the cosine between the sum of the pulls and the exact gradient of the accuracy.
    """

    def accuracy(parameters):
        return (words.distribution(policy, parameters) * words.reward_table()).sum(axis=-1).mean()

    rollouts = Rollouts.of(*groups, keys=jax.random.split(jax.random.key(0), len(groups[1].rewards)))
    advantages = objective.weigh(rollouts, objective.init(words.sizes))[0].advantages[..., 0]
    gradients = policy.answer_gradients(of_sampler, groups[0])
    close = shared_tokens(rollouts.tokens, rollouts.token_mask) > 0.6
    batch = (gradients * advantages[..., None]).sum(axis=(0, 1))
    ascent = jax.grad(accuracy)(of_sampler)["weights"].ravel()
    found = {"kept": (advantages != 0).mean(), "alignment": cosine(batch, ascent)}
    return found | opposite_cosines(gradients, advantages, close)


def word_runs(
    words: DecidedWords,
    policy: SharedTable,
    objective: Objective,
    anchors: OffPolicyAnswers | None,
    errors: float,
    settings: Any,
) -> Points:
    """Of the runs of all seeds and learning rates, after each interval of BATCHES batches.

    `ACCURACIES` are those of the end, `gradient_measures` means over the run so far, and `norm_std` and `norm_max` tell
    how calm the norms of its gradients were.

    Args:
      anchors: answers that take the place of some of a group's.
      errors: rate of the grader's errors, for right and for wrong answers.
      settings: have seeds, learning_rates, group_size and intervals.
    """
    steps, sizes = BATCHES * settings.intervals, (words.num_prompts, settings.group_size)
    training = TrainSettings(steps, *sizes, max_gradient_norm=None, off_policy=anchors)
    trainer, grid = Trainer(words, policy, objective, training), (settings.seeds, (0,), settings.learning_rates)

    def measure(parameters, of_sampler, groups):
        now = (words.distribution(policy, parameters) * words.reward_table()).sum(axis=-1)
        accuracies = {"accuracy": now.mean(), "hopeless": now[words.hopeless].mean()}
        return accuracies | gradient_measures(words, policy, objective, of_sampler, groups)

    measured, metrics = train_on_old_groups(trainer, measure, BATCHES, *grid, NoisyVerifier(errors, errors))
    values = {name: of if name in ACCURACIES else mean_so_far(of) for name, of in measured.items()}
    norms = metrics["gradient_norm"]
    values |= {"norm_std": std_so_far(norms), "norm_max": np.maximum.accumulate(norms.max(-1), -1)}
    return points(values, BATCHES, *grid)
