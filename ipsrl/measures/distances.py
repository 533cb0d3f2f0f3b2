"""How far a law over K known outcomes is from the law it should have.

`law` is what the policy does (exact, or `empirical_law` of its samples), `target` is what it should do. Both are
`[..., K]` and are taken to sum to one; leading axes are batch axes and broadcast. Everything is jittable. Zeros are
exact: 0 log 0 = 0, and a divergence that is infinite is returned as inf.
"""

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import rel_entr


def empirical_law(outcome_id: Array, num_outcomes: int) -> Array:
    """Frequencies `[K]` of the outcomes 0 .. K-1 among all samples in `outcome_id` (any shape), float32.

    Samples without one of these outcomes (-1) are left out; where none is left, all frequencies are 0.
    """
    outcome_id = jnp.ravel(jnp.asarray(outcome_id))
    known = (outcome_id >= 0) & (outcome_id < num_outcomes)
    # One more bin takes the samples that are left out: bincount would count negative ids as 0.
    counts = jnp.bincount(jnp.where(known, outcome_id, num_outcomes), length=num_outcomes + 1)[:num_outcomes]
    return counts / jnp.maximum(1, jnp.sum(known))


def total_l1(law: Array, target: Array) -> Array:
    """sum_k |p_k - q_k|, in [0, 2]."""
    law, target = _pair(law, target)
    return jnp.sum(jnp.abs(law - target), axis=-1)


def mean_l1(law: Array, target: Array) -> Array:
    """(1/K) sum_k |p_k - q_k|: the mean error of a cell, in [0, 2/K].

    This reading fits the hypergrid numbers of arXiv 2601.21669 (n = 2); such numbers shrink with K by themselves.
    """
    return total_l1(law, target) / jnp.shape(law)[-1]


def total_variation(law: Array, target: Array) -> Array:
    """(1/2) sum_k |p_k - q_k|, in [0, 1]."""
    return total_l1(law, target) / 2


def forward_kl(law: Array, target: Array) -> Array:
    """KL(target || law) = sum_k q_k log(q_k / p_k), nats; inf where the law misses an outcome of the target."""
    law, target = _pair(law, target)
    return jnp.sum(rel_entr(target, law), axis=-1)


def reverse_kl(law: Array, target: Array) -> Array:
    """KL(law || target) = sum_k p_k log(p_k / q_k), nats; inf where the law has an outcome that the target excludes."""
    return forward_kl(target, law)


def jensen_shannon(law: Array, target: Array) -> Array:
    """(KL(p || m) + KL(q || m)) / 2 with m = (p + q) / 2, nats, in [0, ln 2]."""
    law, target = _pair(law, target)
    middle = (law + target) / 2
    return (forward_kl(middle, law) + forward_kl(middle, target)) / 2


def modes_found(law: Array, modes: Array, threshold: float | Array) -> Array:
    """Number of modes whose probability is above the threshold, int32 `[...]`.

    Args:
      law: `[..., K]`; with an empirical law and threshold 0 this counts the modes that were sampled at all.
      modes: `[K]` bool, which outcomes are modes.
      threshold: one number, or `[K]` (such as half of the target law).
    """
    law, modes = _pair(law, modes)
    return jnp.sum(modes & (law > threshold), axis=-1)


def _pair(law: Array, target: Array) -> tuple[Array, Array]:
    law, target = jnp.asarray(law), jnp.asarray(target)
    if law.ndim == 0 or target.ndim == 0 or law.shape[-1] != target.shape[-1]:
        raise ValueError(f"both laws must have the same number of outcomes, not {law.shape} and {target.shape}")
    return law, target
