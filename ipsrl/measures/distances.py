"""Distances of a distribution over K known outcomes from its target.

`probs` is the policy's distribution (exact, or the frequencies of its samples). Both it and `target` are
`[..., K]`; leading axes are batch axes and broadcast. Everything is jittable. Zeros are exact: 0 log 0 = 0, and an
infinite divergence is returned as inf.

Outside of jit, a distance raises ValueError if a number is negative, or if a distribution adds up to neither 1 nor,
without any samples, 0.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.scipy.special import rel_entr

from ipsrl.checking.arguments import checked, shown

MOST_ROUNDED = 0.01
"""The most by which the sum of a distribution in bfloat16 may differ from 1."""


@checked
def total_l1(probs: Array, target: Array) -> Array:
    """sum_k |p_k - q_k|, in [0, 2]."""
    probs, target = _distributions(probs, target)
    return jnp.sum(jnp.abs(probs - target), axis=-1)


@checked
def total_variation(probs: Array, target: Array) -> Array:
    """(1/2) sum_k |p_k - q_k|, in [0, 1]."""
    return total_l1(probs, target) / 2


@checked
def forward_kl(probs: Array, target: Array) -> Array:
    """KL(target q || p) = sum_k q_k log(q_k / p_k), nats; inf if p lacks an outcome of the target."""
    probs, target = _distributions(probs, target)
    return jnp.sum(rel_entr(target, probs), axis=-1)


@checked
def reverse_kl(probs: Array, target: Array) -> Array:
    """KL(p || target q) = sum_k p_k log(p_k / q_k), nats; inf if p has an outcome that the target excludes."""
    return forward_kl(target, probs)


def _distributions(probs: Array, target: Array) -> tuple[Array, Array]:
    probs, target = jnp.asarray(probs), jnp.asarray(target)
    if probs.ndim == 0 or target.ndim == 0 or probs.shape[-1] != target.shape[-1]:
        raise ValueError(
            f"both distributions must have the same number of outcomes, not {probs.shape} and {target.shape}"
        )
    for array in (probs, target):
        # What a program computes, and what lies on other hosts, is not known here.
        if not isinstance(array, Tracer) and array.is_fully_addressable:
            known = np.asarray(array, np.float64)
            sums = known.sum(axis=-1)
            if not np.all(known >= 0) or not np.all((np.abs(sums - 1) <= MOST_ROUNDED) | (sums == 0)):
                raise ValueError(
                    f"{shown(known.tolist())} is no distribution: no number may be negative, and they must add up to 1"
                )
    return probs, target
