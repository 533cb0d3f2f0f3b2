"""Policies and transitions estimated from demonstrations (arXiv 2512.06956, our reading).

The estimator is penalised maximum likelihood over a class of policies, argmax sum_t log pi(A_t|S_t) - pen(pi). The
counts of transitions are all that it reads, so that its cost does not grow with the chain.
"""

import jax
import jax.numpy as jnp
import optax
from jax import Array


def tabular_policy(counts: Array, pseudo_count: float) -> Array:
    """`[..., S, A]`, the maximum of sum N(s,a) log pi(a|s) + c sum log pi(a|s) over all policies.

        pi(a|s) = (N(s,a) + c) / (N(s) + c A)

    The penalty -c sum log pi keeps actions that were never seen from a logarithm of -inf. Both the penalty and its
    weight are ours; c = 0.5 is the usual choice (Krichevsky-Trofimov).

    Args:
      counts: `[..., S, A]`, of actions in states.
      pseudo_count: c >= 0.
    """
    smoothed = counts + pseudo_count
    return smoothed / smoothed.sum(axis=-1, keepdims=True)


def transitions_of(counts: Array, pseudo_count: float) -> Array:
    """`[..., S, A, S]`, transitions from the counts of them, each with c more than was seen."""
    smoothed = counts + pseudo_count
    return smoothed / smoothed.sum(axis=-1, keepdims=True)


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
    """
    smoothed = counts + pseudo_count
    weights = smoothed / smoothed.sum()
    law = weights.sum(axis=-1, keepdims=True)
    logits = jnp.log(weights / law)
    centered = logits - logits.mean(axis=-1, keepdims=True)
    left, values, right = jnp.linalg.svd(centered, full_matrices=False)
    roots = jnp.sqrt(values[:rank])
    factors = (
        left[:, :rank] * roots,
        roots[:, None] * right[:rank],
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
    (factors, _), _ = jax.lax.scan(iterate, start, length=iterations)
    return jax.nn.softmax(factors[0] @ factors[1], axis=-1)


def excess_divergence(policy: Array, other: Array, law: Array) -> Array:
    """`[...]`, the KL divergence sum_{s,a} rho(s,a) log(pi(a|s) / other(a|s)), rho the law of pi's chain.

    Args:
      policy, law: `[S, A]`; where rho is 0 nothing is added.
      other: `[..., S, A]`; the result is infinite where it lacks what the policy does.
    """
    ratio = jnp.where(law > 0, policy / other, 1.0)
    terms = jnp.where(law > 0, law * jnp.log(ratio), 0.0)
    return terms.sum(axis=(-2, -1))
