"""Optima regularised by an f-divergence from a reference, and how far a divergence lets distributions be apart.

The divergences D_f(pi || ref) = E_ref[ f(pi / ref) ] are those of `ipsrl.objectives.estimators.divergences`, of f-DPO
(arXiv 2309.16240). All their f' tend to -inf at 0, so that the distribution over K outcomes that maximises E_pi[r] -
beta D_f(pi || ref) is positive everywhere:

    pi = ref u,    f'(u) = (r - lambda) / beta,    with the one lambda for which pi sums to 1

reverse_kl gives ref exp(r / beta) / Z, forward_kl beta ref / (lambda - r). The preferences of a Bradley-Terry model
decide r up to a constant, which lambda absorbs: f-DPO on exact preferences ends here as well.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.bisection import bisected
from ipsrl.objectives.estimators.divergences import Divergence, link

BISECTIONS = 200
GENERATORS = {
    "reverse_kl": lambda u: u * np.log(u),
    "forward_kl": lambda u: -np.log(u),
    "jensen_shannon": lambda u: u * np.log(u) - (u + 1) * np.log((u + 1) / 2),
    "alpha": lambda u: 2 * (np.sqrt(u) - 1) ** 2,
}
"""f of each divergence; alpha is 1/2 everywhere in the study."""


def regularised_optimum(
    rewards: np.ndarray,
    reference: np.ndarray,
    beta: float,
    divergence: Divergence,
) -> np.ndarray:
    """The distributions `[..., K]`, float64, at which E_pi[r] - beta D_f(pi || ref) is largest.

    lambda is found by bisection between the two values at which the best, or the worst, outcome would keep its
    probability. Equal rewards give the reference.

    Args:
      rewards: `[..., K]`, of any sign; a constant added to them changes nothing.
      reference: `[..., K]`, positive distributions.
      beta: weight of the divergence, positive: without one the best outcome takes everything.
      divergence: its name.
    """
    # The largest reward is 0, so that where lambda is just above it, it has all its digits.
    below = rewards - rewards.max(axis=-1, keepdims=True)
    with jax.enable_x64(True):
        return np.asarray(_optimum(below, reference, beta, divergence))


@functools.partial(jax.jit, static_argnames="divergence")
def _optimum(rewards: Array, reference: Array, beta: Array, divergence: Divergence) -> Array:
    unchanged = beta * link(divergence, jnp.zeros(()))

    def log_probs(level):
        return jnp.log(reference) + inverse_link(divergence, (rewards - level) / beta)

    def is_below(level):
        return jnp.exp(log_probs(level)).sum(axis=-1, keepdims=True) > 1

    low, high = (end(axis=-1, keepdims=True) - unchanged for end in (rewards.min, rewards.max))
    # At the upper end the sum is 1 at most, so that there all probabilities are finite.
    _, level = bisected(is_below, low, high, BISECTIONS)
    return jax.nn.softmax(log_probs(level), axis=-1)


def divergence_of(probs: np.ndarray, reference: np.ndarray, name: Divergence) -> np.ndarray:
    """D_f(pi || ref) of positive distributions `[..., K]`, `[...]`; jensen_shannon is twice the usual one, in nats."""
    values = GENERATORS[name](probs / reference)
    # Of distributions that hardly differ, rounding may make it negative.
    return np.maximum((reference * values).sum(axis=-1), 0.0)


def largest_total_variation(divergence: np.ndarray, name: Divergence) -> np.ndarray:
    """The largest sum |p - q| / 2 that a divergence `[...]` allows: sqrt(D / (2 f''(1))), and no more than 1.

    That is Pinsker's inequality, whose form for alpha is Gilardoni's (arXiv cs/0603097). f''(1) is 1, and 1/2 for
    jensen_shannon.
    """
    scale = 1.0 if name == "jensen_shannon" else 0.5
    return np.minimum(np.sqrt(divergence * scale), 1.0)


def inverse_link(name: Divergence, value: Array, alpha: float = 0.5) -> Array:
    """log u at which `link` takes a value, of any shape; inf for values above the range of the link.

    The range is all values for reverse_kl, values below 0 for forward_kl, below log 2 for jensen_shannon, below 1 /
    alpha for alpha. The clip of `link` is ignored.
    """
    if name == "reverse_kl":
        return value
    supremum = {"forward_kl": 0.0, "jensen_shannon": math.log(2.0), "alpha": 1.0 / alpha}[name]
    reached = value < supremum
    value = jnp.where(
        reached, value, supremum - 1.0
    )  # any value in the range, so that the gradient has no NaN
    if name == "forward_kl":
        log_ratio = -jnp.log(-value)
    elif name == "jensen_shannon":
        log_ratio = value - jnp.log(2.0 - jnp.exp(value))
    else:
        log_ratio = -jnp.log1p(-alpha * value) / alpha
    return jnp.where(reached, log_ratio, jnp.inf)
