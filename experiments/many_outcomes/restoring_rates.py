"""Rate at which inverse probability scaling returns a policy close to uniform to K equally good outcomes.

Half of the policy's logits are shifted by +`displacement` and half by -`displacement`, and all K outcomes have reward
1. The rate is the share of the displacement that the mean update of `ips_dr_grpo` removes in a unit of time (updates x
step size), relative to that of r / p with infinitely many samples; 1 is the ideal. GRPO has rate 0, because a tie has
no advantages.
"""

from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import softmax

from ipsrl import objectives
from ipsrl.arguments import checked
from ipsrl.dynamics import finite_groups, flows, time_scales
from ipsrl.environments.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

Estimate = Literal["counts", "exact"]
"""Estimate of an outcome's probability: its frequency in the group, or the policy's own."""
ESTIMATES: tuple[Estimate, ...] = get_args(Estimate)

GROUPS_PER_BATCH, BATCHES_AT_ONCE = 32, 8
"""The samples of 8 x 32 groups are in memory at once, with a number for each outcome."""


@checked
def sampled(
    estimate: Estimate, num_outcomes: int, group_size: int, displacement: float, batches: int
) -> np.ndarray:
    """`[batches]` float64, the rate from one sampled update of each batch of 32 groups; K is even."""
    if batches < 1:
        raise ValueError(f"batches is {batches}, it must be at least 1")
    start = _displaced(num_outcomes, displacement)
    bandit = Bandit((1.0,) * num_outcomes)
    policy = Tabular(bandit.num_observations, bandit.vocabulary_size, tuple(start.tolist()))
    objective = objectives.make(f"ips_dr_grpo(probability={estimate})")
    settings = TrainSettings(
        steps=1,
        prompts_per_step=GROUPS_PER_BATCH,
        group_size=group_size,
        optimizer="sgd",
        learning_rate=1.0,
        max_gradient_norm=None,
    )
    trainer = Trainer(bandit, policy, objective, settings)

    def update(seed: jax.Array) -> jax.Array:
        logits = train_ensemble(trainer, seed[None], _logits)
        return logits[0, 1] - logits[0, 0]

    updates = jax.lax.map(update, jnp.arange(batches), batch_size=BATCHES_AT_ONCE)
    # Exact scaling divides rewards by their running mean, which is K for K rewards of 1: its time is slower by K.
    clock = num_outcomes if estimate == "exact" else 1.0
    return clock * _taken_back(np.asarray(updates, np.float64), start) / _ideal(num_outcomes)


@checked
def exact(estimate: Estimate, num_outcomes: int, group_size: int, displacement: float) -> float:
    """The exact mean of `sampled`."""
    start, ones = _displaced(num_outcomes, displacement), np.ones(num_outcomes)
    if estimate == "exact":
        update = (1 - 1 / group_size) * flows.flow_velocity(start, ones, alpha=1.0)
    else:
        weights = finite_groups.count_weights(group_size)
        update = finite_groups.mean_field(softmax(start), ones, weights, "group mean")
    return float(_taken_back(update, start) / _ideal(num_outcomes))


@checked
def closed_form(estimate: Estimate, num_outcomes: int, group_size: int) -> float:
    """The limit of `exact` for small displacements; the group mean costs one sample."""
    if estimate == "exact":
        return 1 - 1 / group_size
    weights = finite_groups.without_one_sample(finite_groups.count_weights(group_size))
    return float(time_scales.restoring_rate(num_outcomes, weights) / _ideal(num_outcomes))


def _displaced(num_outcomes: int, displacement: float) -> np.ndarray:
    if num_outcomes % 2 or num_outcomes < 2:
        raise ValueError(
            f"num_outcomes is {num_outcomes}, it must be even: half of the logits are off each way"
        )
    if displacement == 0:
        raise ValueError(
            f"displacement is {displacement}, but nothing returns to where it is already"
        )
    return displacement * np.repeat([1.0, -1.0], num_outcomes // 2)


def _logits(parameters):
    """`[K]`, of a bandit policy with one prompt."""
    return parameters["logits"][0]


def _taken_back(updates: np.ndarray, displacement: np.ndarray) -> np.ndarray:
    """The share of a displacement `[K]` from uniform logits that updates `[..., K]` remove."""
    return -(updates @ displacement) / (displacement @ displacement)


def _ideal(num_outcomes: int) -> float:
    return time_scales.ideal_restoring_rate(num_outcomes, alpha=1.0)
