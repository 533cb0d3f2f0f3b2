"""RPO's game on a table: the best policy against a reward that pays for its misfit to preferences (arXiv 2405.16436).

    J(pi, r) = eta ( E_pi[r] - E_base[r] - beta KL(pi || pi_ref) ) + L_D(r),
    L_D(r) = mean over pairs of -log sigmoid(r(winner) - r(loser)),   pi_base = the distribution of winners.

max over pi of min over r is what a cautious policy wants. J is concave in pi and convex in r, so that both orders have
one value, and min over r of max over pi is the RPO loss: with r = beta log(pi / pi_ref) + a constant it is

    eta beta ( E_base[-log pi] + E_base[log pi_ref] ) + L_D.

An arm that never wins, or is in no pair, is paid less and less at no cost: the policy leaves it out.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import entr, logit, rel_entr

TOLERANCE = 1e-12
MOST_STEPS = 500
BARRIERS = tuple(10.0**-power for power in range(2, 15))
"""Weights of the logarithmic barrier of `max_min`; with the last one the policy is within 1e-9 of the optimum."""


def max_min(
    wins: np.ndarray,
    reference: np.ndarray,
    beta: float,
    eta: float,
) -> np.ndarray:
    """The policy `[K]` that maximises min over r of J; RPO's loss is nowhere in it.

    The misfit of a pair is the maximum over s in [0, 1] of -s (r(w) - r(l)) + H(s), H in nats, so that J is linear in r
    inside it. Rewards can then make J arbitrarily small unless eta (pi - pi_base) = mean of s (e_w - e_l). What is left
    is a maximum over one s for each kind of pair, strictly concave, found by an interior-point method in float64:

        max over s of -eta beta KL(pi_s || pi_ref) + mean H(s),   pi_s = pi_base + mean of s (e_w - e_l) / eta >= 0.

    Args:
      wins: `[K, K]`, how often the arm of the row was preferred to that of the column.
      reference: `[K]`, pi_ref, positive.
      beta, eta: weights of the divergence and of caution, positive.
    """
    base = chosen(wins)
    won = base > 0
    winners, losers = np.nonzero(wins * won)
    shares = wins[winners, losers] / wins.sum()
    moves = np.zeros((len(reference), len(winners)))
    kinds = np.arange(len(winners))
    moves[winners, kinds], moves[losers, kinds] = shares / eta, -shares / eta
    moves, base_won, reference_won = moves[won], base[won], reference[won]

    def loss(s, barrier):
        pi = base_won + moves @ s
        positive = np.concatenate([pi, s, 1 - s])
        if positive.min() <= 0:
            return np.inf
        value = eta * beta * rel_entr(pi, reference_won).sum() - shares @ (entr(s) + entr(1 - s))
        return value - barrier * np.log(positive).sum()

    def slopes(s, barrier):
        pi = base_won + moves @ s
        of_policy = eta * beta * (np.log(pi / reference_won) + 1) - barrier / pi
        curved_policy = eta * beta / pi + barrier / pi**2
        curved_s = shares / (s * (1 - s)) + barrier * (1 / s**2 + 1 / (1 - s) ** 2)
        first = moves.T @ of_policy + logit(s) * shares - barrier * (1 / s - 1 / (1 - s))
        return first, moves.T * curved_policy @ moves + np.diag(curved_s)

    # So small that no arm loses more than half of what it has in pi_base.
    taken = -np.minimum(moves, 0).sum(axis=1)
    found = np.full(len(winners), np.min(base_won[taken > 0] / (2 * taken[taken > 0]), initial=0.5))
    for barrier in BARRIERS:
        found = _newton(loss, slopes, found, barrier)
    pi = np.zeros(len(reference))
    pi[won] = base_won + moves @ found
    return pi


def chosen(wins: np.ndarray) -> np.ndarray:
    """`[..., K]`, pi_base, the distribution of winners."""
    won = wins.sum(axis=-1)
    return won / won.sum(axis=-1, keepdims=True)


def _newton(
    loss: Callable,
    slopes: Callable,
    at: np.ndarray,
    barrier: float,
) -> np.ndarray:
    """The minimum of a strictly convex function that is infinite outside its domain, from a place inside.

    Raises:
      ValueError: it was not found.
    """
    for _ in range(MOST_STEPS):
        first, second = slopes(at, barrier)
        step = -np.linalg.solve(second, first)
        here, decrease = loss(at, barrier), -first @ step
        if decrease < TOLERANCE * (1 + abs(here)):
            # A last step squares an error that the loss no longer shows.
            return at + step if np.isfinite(loss(at + step, barrier)) else at
        size = 1.0
        while (
            size > TOLERANCE and not loss(at + size * step, barrier) <= here - 0.1 * size * decrease
        ):
            size /= 2
        at = at + size * step
    raise ValueError(f"no optimum was found in {MOST_STEPS} steps: choose a larger eta or beta")
