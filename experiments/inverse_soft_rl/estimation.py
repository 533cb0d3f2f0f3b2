"""Policies and transitions estimated from demonstrations (arXiv 2512.06956, our reading).

The estimator is penalised maximum likelihood over a class of policies, argmax sum_t log pi(A_t|S_t) - pen(pi). The
counts of transitions are all that it reads, so that its cost does not grow with the chain.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.core import Tracer

from ipsrl.arguments import checked, shown


@checked
def tabular_policy(counts: Array, pseudo_count: float) -> Array:
    """`[..., S, A]`, the maximum of sum N(s,a) log pi(a|s) + c sum log pi(a|s) over all policies.

        pi(a|s) = (N(s,a) + c) / (N(s) + c A)

    The penalty -c sum log pi keeps actions that were never seen from a logarithm of -inf. Both the penalty and its
    weight are ours; c = 0.5 is the usual choice (Krichevsky-Trofimov).

    Args:
      counts: `[..., S, A]`, of actions in states.
      pseudo_count: c >= 0.

    Raises:
      ValueError: c is negative, or it is 0 and an action was never seen.
    """
    smoothed = _smoothed(counts, pseudo_count)
    return smoothed / smoothed.sum(axis=-1, keepdims=True)


@checked
def transitions_of(counts: Array, pseudo_count: float) -> Array:
    """`[..., S, A, S]`, transitions from the counts of them, each with c more than was seen.

    Raises:
      ValueError: c is negative, or it is 0 and an action was never seen in a state.
    """
    _smoothed(counts.sum(axis=-1), pseudo_count)
    smoothed = counts + pseudo_count
    return smoothed / smoothed.sum(axis=-1, keepdims=True)


def _smoothed(counts: Array, pseudo_count: float) -> Array:
    if not pseudo_count >= 0:
        raise ValueError(f"pseudo_count is {pseudo_count}, it must not be negative")
    if np.ndim(counts) < 2 or not np.size(counts):
        raise ValueError(
            f"counts has the shape {np.shape(counts)}, it must have a row of actions for each state"
        )
    if not isinstance(counts, Tracer):
        least = np.asarray(counts).min()
        if not least >= 0:
            raise ValueError(
                f"counts is {shown(np.asarray(counts).tolist())}, no number may be negative"
            )
        if pseudo_count == least == 0:
            raise ValueError(
                "an action was never seen in some state and pseudo_count is 0: take a positive one"
            )
    return counts + pseudo_count


@checked
def low_rank_policy(counts: Array, rank: int, pseudo_count: float, iterations: int = 200) -> Array:
    """`[S, A]`, penalised maximum likelihood over policies softmax(B C) with B `[S, R]` and C `[R, A]`.

    A class of rank min(S, A - 1) or more has all policies, because logits are defined up to a constant for each state;
    a smaller one is misspecified unless the expert is in it. The likelihood is that of `tabular_policy`, with its
    penalty. It is not concave in (B, C): L-BFGS (optax) starts from the singular values of the tabular policy's
    centered logits and ends at a local maximum. Batches are vmapped.

    Args:
      counts: `[S, A]`; also weights such as an invariant law, of which the maximum is the policy of the class with the
        least KL divergence.
      rank: R.
      pseudo_count: c > 0, or 0 where all counts are positive.
      iterations: of L-BFGS.

    Raises:
      ValueError: as `tabular_policy`, or the rank is below 1 or above min(S, A).
    """
    if np.ndim(counts) != 2:
        raise ValueError(
            f"counts has the shape {np.shape(counts)}, it must be [S, A]: use jax.vmap for many"
        )
    if iterations < 1:
        raise ValueError(f"iterations is {iterations}, it must be at least 1")
    if not 1 <= rank <= min(np.shape(counts)):
        raise ValueError(
            f"rank is {rank}, it must lie between 1 and {min(np.shape(counts))}, the smaller side of counts"
        )
    smoothed = _smoothed(counts, pseudo_count)
    weights = smoothed / smoothed.sum()
    logits = jnp.log(weights / weights.sum(axis=-1, keepdims=True))
    left, values, right = jnp.linalg.svd(
        logits - logits.mean(axis=-1, keepdims=True), full_matrices=False
    )
    roots = jnp.sqrt(values[:rank])
    factors = left[:, :rank] * roots, roots[:, None] * right[:rank]

    def loss(factors):
        return -(weights * jax.nn.log_softmax(factors[0] @ factors[1], axis=-1)).sum()

    optimizer, value_and_grad = optax.lbfgs(), optax.value_and_grad_from_state(loss)

    def iterate(carried, _):
        factors, state = carried
        value, gradient = value_and_grad(factors, state=state)
        updates, state = optimizer.update(
            gradient, state, factors, value=value, grad=gradient, value_fn=loss
        )
        return (optax.apply_updates(factors, updates), state), None

    (factors, _), _ = jax.lax.scan(iterate, (factors, optimizer.init(factors)), length=iterations)
    return jax.nn.softmax(factors[0] @ factors[1], axis=-1)


@checked
def excess_divergence(policy: Array, other: Array, law: Array) -> Array:
    """`[...]`, the KL divergence sum_{s,a} rho(s,a) log(pi(a|s) / other(a|s)), rho the law of pi's chain.

    Args:
      policy, law: `[S, A]`; where rho is 0 nothing is added.
      other: `[..., S, A]`; the result is infinite where it lacks what the policy does.

    Raises:
      ValueError: the tables are of different states and actions.
    """
    if (
        not np.shape(policy)[-2:] == np.shape(other)[-2:] == np.shape(law)[-2:]
        or np.ndim(policy) < 2
    ):
        shapes = ", ".join(str(np.shape(table)) for table in (policy, other, law))
        raise ValueError(
            f"policy, other and law have the shapes {shapes}, they must end with the same [S, A]"
        )
    return jnp.where(law > 0, law * jnp.log(jnp.where(law > 0, policy / other, 1.0)), 0.0).sum(
        axis=(-2, -1)
    )
