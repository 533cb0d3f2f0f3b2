"""Eight prompts with nine answers each, four of them right: as a bandit, as trees, and a task in text beside them."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import expit, logit

from experiments.crossed.trees import Trees, prior_probs
from ipsrl import objectives
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.state_graph import StateGraph
from ipsrl.measures.coverage import exact_coverage
from ipsrl.policies.policy import Parameters
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular
from ipsrl.study.curves import Points
from ipsrl.study.text_tasks import TextTaskSettings
from ipsrl.study.tuning import at_best_rate
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer

RANKS = np.array([np.random.default_rng(prompt).permutation(9) for prompt in range(8)])
"""`[8, 9]`: the place of each answer, the likeliest first; the first four of a prompt are right."""
RIGHT = RANKS < 4
TREES = Trees(depth=8, rewards=tuple(map(tuple, RIGHT.astype(float).tolist())))
"""An answer is reached after 3 to 8 moves."""
BANDIT = Bandit(TREES.rewards)
SCORE = "pass_at_1"
TEXT_RUNS = TextTaskSettings(
    tasks=("hypospace_boolean(operators=basic, depth=2)",),
    steps=100,
    prompts_per_step=16,
    mini_batches=4,
    micro_batches=1,
    evaluate_every=100,
)


def policy_for(environment: StateGraph) -> Tabular:
    return Tabular(environment.num_observations, environment.vocabulary_size)


def prior(pass_rate: float, bias: float, spread: float = 6.0) -> np.ndarray:
    """`[8, 9]` probabilities: each right answer `bias` times as likely as the next likelier one, wrong ones alike.

    The log-odds of the prompts' pass rates lie from `spread` below to `spread` above those of `pass_rate`.
    """
    return prior_probs(
        RIGHT, expit(logit(pass_rate) + np.linspace(-spread, spread, len(RIGHT))), bias**RANKS
    )


def logits_for(environment: StateGraph, probs: np.ndarray) -> np.ndarray:
    """The table of logits that gives answers these probabilities."""
    return (
        environment.logits_for(probs)
        if isinstance(environment, Trees)
        else np.log(probs, dtype=np.float32)
    )


def coverage(
    environment: StateGraph, numbers: tuple[int, ...], parameters: Parameters
) -> dict[str, Array]:
    """`exact_coverage` by these numbers of tries, over the eight prompts."""
    of_prompt = functools.partial(outcome_probs, environment, policy_for(environment), parameters)
    return exact_coverage(jax.vmap(of_prompt)(jnp.arange(len(RIGHT))), RIGHT, numbers)


def runs(
    environment: StateGraph,
    objective: str,
    starts: np.ndarray,
    numbers: tuple[int, ...],
    settings: Any,
) -> Callable[[], list[Points]]:
    """What trains an objective at its best rate by `SCORE` and gives `coverage` for each of some initial tables.

    Each batch has a group for each prompt and serves for four optimiser steps, so that clips act.

    Args:
      starts: `[N, S, V]` logits.
      settings: as for `at_best_rate`, with `steps` and `group_size`.
    """
    training = TrainSettings(
        settings.steps,
        len(RIGHT),
        settings.group_size,
        max_gradient_norm=None,
        batching=Batching(mini_batches=4),
    )
    trainer = Trainer(environment, policy_for(environment), objectives.make(objective), training)
    record = functools.partial(coverage, environment, numbers)
    return functools.cache(
        functools.partial(at_best_rate, trainer, record, SCORE, {"logits": starts}, settings)
    )
