"""Optima regularised by an f-divergence from a reference, and how far a divergence lets distributions be apart.

The divergences D_f(pi || ref) = E_ref[ f(pi / ref) ] are those of `ipsrl.objectives.estimators.divergences`, of f-DPO
(arXiv 2309.16240). All their f' tend to -inf at 0, so that the distribution over K outcomes that maximises E_pi[r] -
beta D_f(pi || ref) is positive everywhere:

    pi = ref u,    f'(u) = (r - lambda) / beta,    with the one lambda for which pi sums to 1

reverse_kl gives ref exp(r / beta) / Z, forward_kl beta ref / (lambda - r). The preferences of a Bradley-Terry model
decide r up to a constant, which lambda absorbs: f-DPO on exact preferences ends here as well.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.arguments import checked
from ipsrl.objectives.estimators.divergences import Divergence, check_alpha, inverse_link, link

BISECTIONS = 200


@checked
def regularised_optimum(
    rewards: np.ndarray,
    reference: np.ndarray,
    beta: float,
    divergence: Divergence,
    alpha: float = 0.5,
) -> np.ndarray:
    """The distributions `[..., K]`, float64, at which E_pi[r] - beta D_f(pi || ref) is largest.

    lambda is found by bisection between the two values at which the best, or the worst, outcome would keep its
    probability. `alpha` belongs to the divergence of that name. Equal rewards give the reference.

    Args:
      rewards: `[..., K]`, of any sign; a constant added to them changes nothing.
      reference: `[..., K]`, positive distributions.
      beta: weight of the divergence.

    Raises:
      ValueError: rewards are not finite, the reference is not a positive distribution, the shapes do not fit, beta is
        not positive, or alpha is invalid.
    """
    rewards, reference = np.asarray(rewards, np.float64), _checked("reference", reference)
    _check_outcomes("rewards", rewards, reference)
    if not 0 < beta < np.inf:
        raise ValueError(
            f"beta is {beta}, it must be positive: without a divergence the best outcome takes everything"
        )
    check_alpha(divergence, alpha)
    with jax.enable_x64(True):
        return np.asarray(
            _optimum(
                rewards - rewards.max(axis=-1, keepdims=True), reference, beta, divergence, alpha
            )
        )


@functools.partial(jax.jit, static_argnames=("divergence", "alpha"))
def _optimum(
    rewards: Array, reference: Array, beta: Array, divergence: Divergence, alpha: float
) -> Array:
    unchanged = beta * link(divergence, jnp.zeros(()), alpha)
    # The largest reward is 0, so that where lambda is just above it, it has all its digits.
    low, high = (
        rewards.min(axis=-1, keepdims=True) - unchanged,
        rewards.max(axis=-1, keepdims=True) - unchanged,
    )

    def log_probs(level: Array) -> Array:
        return jnp.log(reference) + inverse_link(divergence, (rewards - level) / beta, alpha)

    def halve(_, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        too_much = jnp.exp(log_probs(middle)).sum(axis=-1, keepdims=True) > 1
        return jnp.where(too_much, middle, low), jnp.where(too_much, high, middle)

    shape = jnp.broadcast_shapes(rewards.shape, reference.shape)
    ends = tuple(jnp.broadcast_to(end, (*shape[:-1], 1)) for end in (low, high))
    # At the upper end the sum is 1 at most, so that there all probabilities are finite.
    _, level = jax.lax.fori_loop(0, BISECTIONS, halve, ends)
    return jax.nn.softmax(log_probs(level), axis=-1)


@checked
def divergence_of(
    probs: np.ndarray, reference: np.ndarray, divergence: Divergence, alpha: float = 0.5
) -> np.ndarray:
    """D_f(pi || ref) of distributions `[..., K]`, `[...]`; jensen_shannon is twice the usual one, in nats.

    It is 0 where both are the same. An outcome without probability makes forward_kl infinite, and no other one.

    Raises:
      ValueError: the reference is not positive, one of both is no distribution, the shapes do not fit, or alpha is
        invalid.
    """
    probs, reference = _checked("probs", probs, positive=False), _checked("reference", reference)
    _check_outcomes("probs", probs, reference)
    check_alpha(divergence, alpha)
    positive = probs > 0
    ratio = np.where(positive, probs, reference) / reference
    log_ratio = np.log(ratio)
    if divergence == "reverse_kl":
        values = np.where(positive, ratio * log_ratio, 0.0)
    elif divergence == "forward_kl":
        values = np.where(positive, -log_ratio, np.inf)
    elif divergence == "jensen_shannon":
        values = np.where(
            positive, ratio * log_ratio - (ratio + 1) * np.log((ratio + 1) / 2), np.log(2.0)
        )
    else:
        values = ((probs / reference) ** (1 - alpha) - (1 - alpha) * probs / reference - alpha) / (
            alpha * (alpha - 1)
        )
    # Of distributions that hardly differ, rounding may make it negative.
    return np.maximum((reference * values).sum(axis=-1), 0.0)


@checked
def largest_total_variation(divergence: np.ndarray, name: Divergence) -> np.ndarray:
    """The largest sum |p - q| / 2 that a divergence `[...]` allows: sqrt(D / (2 f''(1))), and no more than 1.

    That is Pinsker's inequality, whose form for alpha is Gilardoni's (arXiv cs/0603097). f''(1) is 1, and 1/2 for
    jensen_shannon.
    """
    return np.minimum(
        np.sqrt(np.asarray(divergence) * (1.0 if name == "jensen_shannon" else 0.5)), 1.0
    )


def _check_outcomes(name: str, values: np.ndarray, reference: np.ndarray) -> None:
    if values.ndim < 1 or values.shape[-1] != reference.shape[-1]:
        raise ValueError(
            f"{name} and reference have the shapes {list(values.shape)} and {list(reference.shape)}: give both a last "
            "axis with one number for each outcome"
        )


def _checked(name: str, probs: np.ndarray, positive: bool = True) -> np.ndarray:
    probs = np.asarray(probs, np.float64)
    allowed = probs > 0 if positive else probs >= 0
    if (
        probs.ndim < 1
        or not allowed.all()
        or not np.allclose(probs.sum(axis=-1), 1.0, rtol=0.0, atol=1e-6)
    ):
        sign = "positive" if positive else "not negative"
        raise ValueError(
            f"{name} must be distributions [..., K]: {sign}, with a sum of 1 along the last axis"
        )
    return probs
