"""Eight prompts with nine answers each, four of them right: as a bandit, as trees, and a task in text beside them."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import expit, logit

from experiments.crossed.trees import Trees, prior_probs
from ipsrl import objectives, study
from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import at_least, positive
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.graphs.tree import Tree
from ipsrl.environments.state_graph import StateGraph
from ipsrl.measures import rewarded
from ipsrl.policies.policy import Parameters
from ipsrl.policies.state_table import outcome_probs_at_prompts
from ipsrl.policies.tabular import Tabular
from ipsrl.study.text_tasks import TextTaskSettings
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer

RANKS = np.array([np.random.default_rng(prompt).permutation(9) for prompt in range(8)])
"""`[8, 9]`: the place of each answer, the likeliest first; the first four of a prompt are right."""
RIGHT = RANKS < 4
BANDIT = Bandit.of_table(RIGHT)
TREES = Trees(Tree(8, rewards=BANDIT.rewards[0]), BANDIT.rewards)
"""An answer is reached after 3 to 8 moves."""
SCORE = "pass_at_1"
at_best = functools.partial(study.Best, score=SCORE)
"""A number of curves at the learning rate that ends with the best score for other seeds."""
TEXT_RUNS = TextTaskSettings(
    tasks=("hypospace_boolean(operators=basic, depth=2)",),
    steps=100,
    prompts_per_step=16,
    mini_batches=4,
    micro_batches=1,
    evaluate_every=100,
)


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """The flags for the bandit and the trees; `steps` is the number of batches, each with a group of every prompt."""

    seeds: tuple[int, ...] = study.seeds(range(5), least=2)
    learning_rates: tuple[float, ...] = positive((0.1,))
    group_size: int = at_least(2, 8)
    steps: int = positive(400)
    record_every: int = positive(100)


def prior(pass_rate: float, bias: float, spread: float = 6.0) -> np.ndarray:
    """`[8, 9]` probabilities: each right answer `bias` times as likely as the next likelier one, wrong ones alike.

    The log-odds of the prompts' pass rates lie from `spread` below to `spread` above those of `pass_rate`.
    """
    log_odds = logit(pass_rate) + np.linspace(-spread, spread, len(RIGHT))
    return prior_probs(RIGHT, expit(log_odds), bias**RANKS)


def logits_for(environment: StateGraph, probs: np.ndarray) -> np.ndarray:
    """The table of logits that gives answers these probabilities."""
    if isinstance(environment, Trees):
        return environment.logits_for(probs)
    return np.log(probs, dtype=np.float32)


@checked
def exact_coverage(probs: Array, right: np.ndarray, tries: Sequence[int]) -> dict[str, Array]:
    """Name -> `[]`, from probabilities `[P, K]`; called under jit or not.

    Args:
      probs: of each outcome at each prompt.
      right: `[P, K]` bool, at least one for each prompt.
      tries: the numbers k.
    """
    found = {
        "effective_outcomes": rewarded.measures(probs, right.astype(np.float32))[
            "effective_outcomes"
        ]
    }
    for k in tries:
        missed = (1 - jnp.clip(probs, 0, 1)) ** k
        found[f"pass_at_{k}"] = 1 - ((1 - jnp.clip((probs * right).sum(axis=-1), 0, 1)) ** k).mean()
        found[f"covered_at_{k}"] = (((1 - missed) * right).sum(axis=-1) / right.sum(axis=-1)).mean()
    return found


def coverage(
    environment: StateGraph, numbers: tuple[int, ...], parameters: Parameters
) -> dict[str, Array]:
    """`exact_coverage` by these numbers of tries, over the eight prompts."""
    probs = outcome_probs_at_prompts(environment, Tabular.of(environment), parameters)
    return exact_coverage(probs, RIGHT, numbers)


def curves(
    environment: StateGraph,
    objective: str,
    starts: Sequence[tuple[Mapping[str, Any], np.ndarray]],
    numbers: tuple[int, ...],
    settings: Settings,
) -> study.Curves:
    """The curves of `coverage` from some initial tables, with every learning rate; all are trained as one program.

    Each batch has a group for each prompt and serves for four optimiser steps, so that clips act.

    Args:
      starts: labels of the curves, and logits `[S, V]` of their initial policy.
      numbers: of tries.
    """
    training = TrainSettings(
        settings.steps,
        len(RIGHT),
        settings.group_size,
        max_gradient_norm=None,
        batching=Batching(mini_batches=4),
    )
    trainer = Trainer(environment, Tabular.of(environment), objectives.make(objective), training)
    record = functools.partial(coverage, environment, numbers)
    labels, logits = zip(*starts, strict=True)
    places = range(0, settings.steps + 1, settings.record_every)

    @functools.cache
    def trained() -> dict[str, np.ndarray]:
        """Name -> `[start, rate, seed, record]`."""
        axes = range(len(starts)), settings.learning_rates, settings.seeds
        grid = np.meshgrid(*axes, indexing="ij")
        start, rate, seed = (axis.ravel() for axis in grid)
        found = train_ensemble(
            trainer,
            jnp.asarray(seed),
            record,
            settings.record_every,
            jnp.asarray(rate, jnp.float32),
            {"logits": jnp.stack(logits)[start]},
        )
        shape = (*grid[0].shape, len(places))
        return {name: np.reshape(values, shape) for name, values in found.items()}

    def points(start: int, number: int) -> study.Points:
        values = {name: of_runs[start, number] for name, of_runs in trained().items()}
        return study.Points(places, values, settings.seeds)

    for start, of_start in enumerate(labels):
        for number, rate in enumerate(settings.learning_rates):
            of_rate = {**of_start, "learning_rate": rate}
            yield study.Curve(of_rate, functools.partial(points, start, number))
