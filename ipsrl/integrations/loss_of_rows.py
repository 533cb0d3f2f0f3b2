"""The weights of rows under an objective, their loss with its gradients, and its arguments."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.integrations.rows import Rows, rollouts_of
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import Aggregation, Penalty, RolloutPart, Surrogate
from ipsrl.structures import Metrics, PolicyScores, Sizes, Weights
from ipsrl.synthetic_rollouts import synthetic_rollouts
from ipsrl.training.step import group_metrics


@functools.partial(jax.jit, static_argnames="objective")
def weigh_rows(
    objective: Objective, groups: Array, rows: Rows, state: tuple, key: Array
) -> tuple[Weights, tuple, Metrics]:
    """Weights of all rows, `[B, T]`, the objective's new state, and metrics; `groups` is `[P, G]`, rows of groups."""
    rollouts = rollouts_of(rows, groups, key)
    weights, state, metrics = objective.weigh(rollouts, state)

    def of_rows(values: Array) -> Array:
        each = jnp.broadcast_to(values, rollouts.tokens.shape).reshape(rows.tokens.shape)
        return jnp.zeros_like(each).at[groups.ravel()].set(each)

    return jax.tree.map(of_rows, weights), state, metrics | group_metrics(rollouts)


def loss_of_rows(
    objective: Objective,
    groups: Array,
    rows: Rows,
    weights: Weights,
    log_probs: Array,
    entropy: Array,
    parameters: Any,
    count: Array | float,
) -> tuple[Array, Metrics]:
    """The loss of the rows in `groups` `[P, G]`, divided by `count`, and metrics: a pure function.

    Arguments are those of `GuestObjective.loss`, with the objective and its `parameters`; the gradient flows through
    these and through `log_probs` and `entropy`, all `[B, T]`.
    """
    # Where the trainer gives no behaviour policy, the policy has not moved since it sampled.
    behaviour = {"behaviour_log_probs": log_probs, "behaviour_entropy": entropy}
    known = {
        name: jax.lax.stop_gradient(value.astype(jnp.float32))
        for name, value in behaviour.items()
        if getattr(rows, name) is None
    }
    rollouts = rollouts_of(dataclasses.replace(rows, **known), groups)
    scores = PolicyScores(log_probs.astype(jnp.float32)[groups], entropy.astype(jnp.float32)[groups])
    of_groups = jax.tree.map(lambda values: values[groups], weights)
    output = objective.loss(scores, rollouts, of_groups, parameters)
    return output.loss_sum / count, output.metrics


@functools.partial(jax.jit, static_argnames="objective")
def loss_and_gradients(objective: Objective, *arguments: Any) -> tuple[Array, tuple, Metrics]:
    """`loss_of_rows`, and its gradients by `log_probs`, `entropy` and `parameters`."""
    with_gradients = jax.value_and_grad(functools.partial(loss_of_rows, objective), (3, 4, 5), has_aux=True)
    (value, metrics), gradients = with_gradients(*arguments)
    return value, gradients, metrics


@functools.partial(jax.jit, static_argnames="aggregation")
def count_rows(aggregation: Aggregation, token_mask: Array) -> Array:
    """The divisor of a loss; a program for each aggregation, which objectives share."""
    return aggregation(jnp.zeros(token_mask.shape, jnp.float32), token_mask)[1]


def couples_groups(objective: Objective) -> bool:
    """Whether the loss of an answer depends on sums over all groups of a mini-batch."""
    rollouts, scores = synthetic_rollouts(0, prompts=2, group=3, length=3, binary=False)
    return objective.surrogate.statistics(scores, rollouts, rollouts.behaviour_entropy) is not None


def couples_answers(objective: Objective) -> bool:
    """Whether the loss of an answer depends on the scores of others, so that it cannot be computed row by row.

    Found by computing it both ways for random answers and weights, so that parts need not declare it.
    """
    # Rows of the catalog differ mostly in their weights.
    return _depends(objective.surrogate, objective.penalties, objective.aggregation)[0]


def reads_entropy(objective: Objective) -> bool:
    """Whether the loss depends on the entropies of the policy being trained; found as `couples_answers` is."""
    return _depends(objective.surrogate, objective.penalties, objective.aggregation)[1]


@functools.cache
def _depends(surrogate: Surrogate, penalties: tuple[Penalty, ...], aggregation: Aggregation) -> tuple[bool, bool]:
    """Whether the loss couples answers, and whether it reads entropies."""
    objective = Objective(RolloutPart(), surrogate, aggregation, penalties=penalties)
    rollouts, scores = synthetic_rollouts(0, prompts=2, group=3, length=3, binary=False)
    rows, groups = Rows.of(rollouts), np.arange(6).reshape(2, 3)
    weights = Weights(rows.behaviour_entropy - 1.0, (jnp.ones(rows.tokens.shape),) * len(penalties))
    of_groups = jax.tree.map(lambda values: values[groups], weights)
    log_probs, entropy = (values.reshape(6, 3) for values in (scores.log_probs, scores.entropy))
    parameters = objective.init_parameters(Sizes(2))

    def gradients(groups: np.ndarray, entropy: Array) -> tuple[Array, Array]:
        return loss_and_gradients(objective, groups, rows, weights, log_probs, entropy, parameters, 1.0)[1][:2]

    whole, alone = gradients(groups, entropy), gradients(groups.reshape(6, 1), entropy)
    coupled = objective.statistics(scores, rollouts_of(rows, groups), of_groups) is not None or not _alike(whole, alone)
    return coupled, bool(whole[1].any()) or not _alike(whole, gradients(groups, 2 * entropy + 1))


def _alike(one: tuple[Array, ...], other: tuple[Array, ...]) -> bool:
    return all(np.allclose(*both, rtol=1e-3, atol=1e-6) for both in zip(one, other, strict=True))
