"""Policies and transitions estimated from demonstrations (arXiv 2512.06956, our reading).

The estimator is penalised maximum likelihood over a class of policies, argmax sum_t log pi(A_t|S_t) - pen(pi). It reads
the counts of transitions alone, so that its cost does not grow with the chain.
"""

import jax
import jax.numpy as jnp
import optax
from jax import Array

PSEUDO_COUNT = 0.5
"""The usual weight c of the penalty (Krichevsky-Trofimov)."""
ITERATIONS = 200
"""The number of iterations of L-BFGS."""


def tabular(counts: Array, pseudo_count: float = PSEUDO_COUNT) -> Array:
    """`[..., K]`, the maximum of sum_k N_k log p_k + c sum_k log p_k over all distributions: (N_k + c) / (N + c K).

    Of counts of actions in states `[..., S, A]` it is the policy, of transitions `[..., S, A, S]` the moves. The
    penalty -c sum log p keeps what was never seen from a logarithm of -inf. Both penalty and weight are ours.
    """
    smoothed = counts + pseudo_count
    return smoothed / smoothed.sum(axis=-1, keepdims=True)


def rank_one_policy(weights: Array) -> Array:
    """`[S, A]`, the maximum likelihood policy of the misspecified class softmax(b c^T), b `[S, 1]` and c `[1, A]`.

    The likelihood is not concave in (b, c): L-BFGS (optax) starts from the largest singular value of the tabular
    policy's centered logits and ends at a local maximum. Batches are vmapped.

    Args:
      weights: `[S, A]` positive, counts with the penalty's; of an invariant law the maximum is the policy of the class
        with the least KL divergence.
    """
    weights = weights / weights.sum()
    logits = jnp.log(weights / weights.sum(axis=-1, keepdims=True))
    centered = logits - logits.mean(axis=-1, keepdims=True)
    left, values, right = jnp.linalg.svd(centered, full_matrices=False)
    root = jnp.sqrt(values[:1])
    factors = (
        left[:, :1] * root,
        root[:, None] * right[:1],
    )

    def loss(factors):
        log_policy = jax.nn.log_softmax(factors[0] @ factors[1], axis=-1)
        return -(weights * log_policy).sum()

    optimizer = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(loss)

    def iterate(carried, _):
        factors, state = carried
        value, gradient = value_and_grad(factors, state=state)
        updates, state = optimizer.update(
            gradient, state, factors, value=value, grad=gradient, value_fn=loss
        )
        return (optax.apply_updates(factors, updates), state), None

    start = factors, optimizer.init(factors)
    (factors, _), _ = jax.lax.scan(iterate, start, length=ITERATIONS)
    return jax.nn.softmax(factors[0] @ factors[1], axis=-1)


def excess_divergence(policy: Array, other: Array, law: Array) -> Array:
    """`[...]`, the KL divergence sum_{s,a} rho(s,a) log(pi(a|s) / other(a|s)), rho the law of pi's chain.

    Args:
      policy, law: `[S, A]`, positive.
      other: `[..., S, A]`.
    """
    return (law * jnp.log(policy / other)).sum(axis=(-2, -1))
