"""Two bandits, and what policies that are trained on them make of a budget at test time, exactly but for votes."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from jax import Array

from experiments.train_and_test_time.gaussian import Gaussian
from experiments.train_and_test_time.test_time import (
    answer_measures,
    by_budget,
    inflated,
    majority_vote,
)
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.policies.state_table import log_probs_table
from ipsrl.policies.tabular import Tabular
from ipsrl.study import ensembles
from ipsrl.study.curves import Curve, Curves, Points
from ipsrl.study.settings import EnsembleSettings

TRAINING, TEST, START = "training", "test", "start"
TOYS = FREE, GAUSSIAN = "free logits", "Gaussian"
BUDGETS = (1, 2, 4, 8, 16)
COOL = 1 / 4
"""The temperature of the way "cool"."""


def toys() -> dict[str, tuple[Bandit, Policy]]:
    """Two bandits of 16 prompts, each with its policy.

    "free logits": four right arms of 16, at places drawn once; normal logits. "Gaussian": five right places of 41 side
    by side, 0 to 11 places off the mean of the first policy.
    """
    rng, prompts = np.random.default_rng(0), 16
    arms = rng.permuted(np.tile(np.arange(16) < 4, (prompts, 1)), axis=1)
    places = np.abs(np.arange(41) - 20 - np.linspace(0, 11, prompts).round()[:, None]) <= 2
    free, ordered = map(Bandit.of_table, (arms, places))
    return {
        FREE: (free, Tabular.of(free, rng.normal(0, 1.5, arms.shape))),
        GAUSSIAN: (ordered, Gaussian.of(ordered)),
    }


def exact_curves(
    bandit: Bandit,
    policy: Policy,
    objective: str,
    settings: EnsembleSettings,
    labels: Mapping[str, Any],
    learning_rate: float,
    start: bool,
) -> Curves:
    """Curves of one objective on a bandit: `answer_measures` along training, `by_budget` at its end.

    A budget is the length of a thought, which multiplies its variance (`inflated`), or the number of short thoughts.
    `long_where_wrong` is the accuracy of long thoughts on prompts whose most likely outcome is wrong: elsewhere more
    variance can hardly raise it.

    Args:
      bandit, policy, objective, settings, learning_rate: as for `ipsrl.study.ensembles.trained`.
      labels: of the runs; `part` is added.
      start: whether to add a curve of budgets before training, with `START` as its objective.
    """
    record = functools.partial(_log_probs, bandit, policy)
    right = bandit.reward_table() > 0
    run = ensembles.trained(
        bandit, policy, objective, settings, record, labels=labels, learning_rate=learning_rate
    )
    trained = functools.cache(run.compute)

    def along_training() -> Points:
        found = trained()
        measures = answer_measures(np.exp(found.values["log_probs"]), right)
        return Points(found.steps, measures, found.seeds)

    def with_budgets(when: int) -> Points:
        found = trained()
        of_all = found.values["log_probs"]
        long = [inflated(of_all[:, when], budget) for budget in BUDGETS]
        ways = {
            "long": long,
            "vote": [majority_vote(long[0], budget) for budget in BUDGETS],
            "cool": [inflated(of_all[:, when], COOL * budget) for budget in BUDGETS],
            "one": long[:1] * len(BUDGETS),
        }
        values = by_budget({way: [(p, right) for p in each] for way, each in ways.items()})
        wrong = first_wrong(of_all[0, 0], right)
        of_wrong = [(p * right).sum(axis=-1)[:, wrong].mean(axis=-1) for p in long]
        values["long_where_wrong"] = np.stack(of_wrong, axis=-1)
        return Points(BUDGETS, values, found.seeds)

    yield Curve({**labels, "part": TRAINING}, along_training)
    at_test = {**labels, "part": TEST}
    yield Curve(at_test, functools.partial(with_budgets, -1))
    if start:
        yield Curve(at_test | {"objective": START}, functools.partial(with_budgets, 0))


def first_wrong(log_probs: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`[P]` bool, whether the most likely outcome is wrong."""
    return ~np.take_along_axis(right, log_probs.argmax(axis=-1)[:, None], axis=-1)[:, 0]


def _log_probs(bandit: Bandit, policy: Policy, parameters: Parameters) -> dict[str, Array]:
    return {"log_probs": log_probs_table(policy, parameters, bandit)}
