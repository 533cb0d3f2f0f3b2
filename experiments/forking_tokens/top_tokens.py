"""Runs on forks and on text that record what the fifth of the tokens with the highest entropy carries."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.environment import Environment
from ipsrl.environments.graphs.forks import Forks
from ipsrl.measures import diversity
from ipsrl.objectives.estimators.ranks import largest
from ipsrl.objectives.estimators.token_shares import rounded_up
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular
from ipsrl.records.evaluation import Evaluation
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Prompts, masked_sum
from ipsrl.study.curves import Curve
from ipsrl.study.ensembles import trained
from ipsrl.study.settings import EnsembleSettings
from ipsrl.study.text_tasks import TextTaskSettings, training_grid
from ipsrl.study.training_runs import TrainingGrid

FIFTH = 0.2
ANSWERS = 64
"""Sampled answers to the prompt of the forks at each record."""


@functools.partial(jax.jit, static_argnames=("environment", "policy", "answers"))
def sampled_entropy(
    environment: Environment,
    policy: Policy,
    first: Parameters,
    parameters: Parameters,
    prompts: Prompts,
    answers: int,
) -> dict[str, Array]:
    """The measures of `entropy_at_the_top` on sampled answers; the first policy reads the same answers."""
    sampled = sample_groups(environment, policy, parameters, prompts, jax.random.key(0), answers)
    at_first = policy.score(first, sampled, 1.0).entropy
    return entropy_at_the_top(sampled.behaviour_entropy, at_first, sampled.token_mask)


def entropy_at_the_top(entropy: Array, first_entropy: Array, mask: Array) -> dict[str, Array]:
    """Measures of the fifth of the tokens with the highest entropy, rounded up, and ties with the last.

    Args:
      entropy: `[P, G, T]`, in nats, of the policy that is measured.
      first_entropy: `[P, G, T]`, of the policy before training at the same tokens.
      mask: `[P, G, T]` bool, True on tokens.

    Returns:
      `entropy`, the mean over tokens; `share`, of all entropy that is at the top (arXiv 2506.01939); and `overlap`, the
      share of the top that is also at the top by `first_entropy`: a fifth, if by chance.
    """
    count = rounded_up(FIFTH, mask)
    top, first_top = largest(entropy, mask, count), largest(first_entropy, mask, count)
    total = masked_sum(entropy, mask)
    return {
        "entropy": total / mask.sum(),
        "share": masked_sum(entropy, top) / total,
        "overlap": (top & first_top).sum() / top.sum(),
    }


def exact_measures(
    forks: Forks, policy: Tabular, first: Parameters, parameters: Parameters
) -> dict[str, Array]:
    """The exact reward `score` and `effective` right outcomes; the rest is `sampled_entropy`."""
    probs, rewards = outcome_probs(forks, policy, parameters), forks.reward_table()[0]
    reward = (probs * rewards).sum()
    effective = diversity.effective_outcomes_of_distribution(probs * rewards / reward)
    prompt = forks.prompts(jnp.zeros(1, jnp.int32))
    entropy = sampled_entropy(forks, policy, first, parameters, prompt, ANSWERS)
    return {"score": reward, "effective": effective, **entropy}


def forks_curve(
    slip: float,
    objective: str,
    settings: EnsembleSettings,
    labels: Mapping[str, Any],
    learning_rate: float,
) -> Curve:
    """`exact_measures` of the runs of an objective on forks whose steps slip with this probability at first."""
    forks = Forks()
    policy = Tabular.of(forks, forks.logits(slip))
    record = functools.partial(exact_measures, forks, policy, policy.init(jax.random.key(0)))
    return trained(
        forks, policy, objective, settings, record, labels=labels, learning_rate=learning_rate
    )


def text_runs(task: str, settings: TextTaskSettings) -> TrainingGrid:
    """The runs on a text task, with the same measures; all of them are estimates."""
    grid = training_grid(task, settings)
    prompts = grid.environment.prompts(np.arange(grid.environment.num_prompts))

    def evaluate(step: int, parameters: Parameters) -> Evaluation:
        first = grid.start()[0]
        entropy = sampled_entropy(
            grid.environment, grid.policy, first, parameters, prompts, settings.answers
        )
        found = grid.evaluate(step, parameters).metrics
        measured = {
            "score": found["pass_at_1"],
            "effective": found["effective_outcomes"],
            **entropy,
        }
        return Evaluation({name: float(value) for name, value in measured.items()})

    return dataclasses.replace(grid, evaluate=evaluate)
