"""Mean number of updates until sampled training with two outcomes leaves a range, for steps of finite size.

Diffusion limits and mean fields hold for small steps; this measures their error for real steps, without sampling.
"""

import numpy as np
from scipy.sparse import coo_array, eye_array
from scipy.sparse.linalg import spsolve
from scipy.special import expit
from scipy.stats import binom

from ipsrl.dynamics.softmax.two_outcome_training import Cell, advantage_weighted_frequencies


def mean_first_passage(
    cell: Cell,
    low: float,
    high: float,
    points: int = 4001,
) -> float:
    """Mean number of updates until u = ln(p_1 / p_2) is no longer strictly between `low` and `high`.

    With u'(n, u) the log-ratio after a group with n times outcome 1, the mean time E from each u in the range solves

        E(u) = 1 + sum over n of Binomial(n; G, p_1) E(u'(n, u)),     E = 0 outside,

    here on equally spaced u, with E linear in between. It is the mean of `two_outcome_training.first_passage` without
    its noise. E jumps where one more group would leave the range, so the error falls only with 1 / points; for a tie
    with h = 1/2 and G up to 64 it is below half a percent at 4001 points. Times of 1e12 and more are lost to rounding.

    Args:
      cell: start and update rule of the run, which leaves the range from every u, as one without a baseline does.
      points: number of values of u.
    """
    pushes = advantage_weighted_frequencies(
        cell.objective,
        cell.rewards,
        cell.group_size,
    )
    first, second = np.float64(pushes).T
    u = np.linspace(low, high, points)[:, None]
    counts = np.arange(cell.group_size + 1)
    chances = binom.pmf(counts, cell.group_size, expit(u))
    rises = expit(-u) * first
    falls = expit(u) * second
    change = 2 * cell.step_size * (rises - falls)
    inside = (low < u + change) & (u + change < high)
    # From the change, so that a group without one keeps u exactly.
    numbers = np.arange(points)[:, None]
    position = numbers + change / (high - low) * (points - 1)
    position = np.where(inside, np.clip(position, 0.0, points - 1.0), 0.0)
    left = np.minimum(position.astype(int), points - 2)
    right_share = position - left
    weights = np.where(inside, chances, 0.0)
    shares = np.stack([weights * (1 - right_share), weights * right_share])
    rows = np.broadcast_to(numbers, shares.shape)
    columns = np.stack([left, left + 1])
    stays = coo_array(
        (shares.ravel(), (rows.ravel(), columns.ravel())),
        shape=(points, points),
    )
    moves = eye_array(points) - stays
    times = spsolve(moves.tocsc(), np.ones(points))
    return float(np.interp(cell.log_ratio, u[:, 0], times))
