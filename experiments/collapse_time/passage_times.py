"""Mean number of updates until sampled training with two outcomes leaves a range, for steps of finite size.

Diffusion limits and mean fields hold for small steps; this measures their error for real steps, without sampling.
"""

import numpy as np
import scipy
from scipy.sparse import csr_array, eye_array, hstack, vstack
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import spsolve
from scipy.special import expit

from ipsrl.arguments import checked
from ipsrl.dynamics.two_outcome_training import Cell, advantage_weighted_frequencies


@checked
def mean_first_passage(cell: Cell, low: float, high: float, points: int = 4001) -> float:
    """Mean number of updates until u = ln(p_1 / p_2) is no longer strictly between `low` and `high`.

    With u'(n, u) the log-ratio after a group with n times outcome 1, the mean time E from each u in the range solves

        E(u) = 1 + sum over n of Binomial(n; G, p_1) E(u'(n, u)),     E = 0 outside,

    here on equally spaced u, with E linear in between. It is the mean of `two_outcome_training.first_passage` without
    its noise. E jumps where one more group would leave the range, so the error falls only with 1 / points; for a tie
    with h = 1/2 and G up to 64 it is below half a percent at 4001 points. Times of 1e12 and more are lost to rounding.

    Args:
      cell: start and update rule of the run.
      low, high: finite.
      points: number of values of u.

    Returns:
      The time; inf if a run can reach a state from which, in float64, it never leaves the range: with a group mean a
        tie is such a state from the start.

    Raises:
      ValueError: the run does not start between `low` and `high`, or the objective is not a table of counts.
    """
    if not -np.inf < low < cell.log_ratio < high < np.inf:
        raise ValueError(
            f"a run that starts at {cell.log_ratio} is not between {low} and {high}, two finite numbers"
        )
    weighted_frequencies = np.float64(
        advantage_weighted_frequencies(cell.objective, cell.rewards, cell.group_size)
    )
    u = np.linspace(low, high, points)[:, None]
    counts = np.arange(cell.group_size + 1)
    chances = scipy.stats.binom.pmf(counts, cell.group_size, expit(u))
    first, second = weighted_frequencies.T
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
    row = np.broadcast_to(numbers, left.shape)
    weights = np.where(inside, chances, 0.0)
    shares = np.stack([weights * (1 - right_share), weights * right_share])
    rows = np.stack([row, row])
    columns = np.stack([left, left + 1])
    stays = csr_array(
        (shares.ravel(), (rows.ravel(), columns.ravel())),
        shape=(points, points),
    )
    leaves = np.where(inside, 0.0, chances).sum(axis=1) > 0
    ends = ~_reaches(stays, ~_reaches(stays, leaves))
    times = np.full(points, np.inf)
    if ends.any():
        moves = (eye_array(points) - stays).tocsc()
        times[ends] = spsolve(moves[ends][:, ends], np.ones(ends.sum()))
    start = (cell.log_ratio - low) / (high - low) * (points - 1)
    left = min(int(start), points - 2)
    shares = {left: 1 - start + left, left + 1: start - left}
    return float(sum(share * times[place] for place, share in shares.items() if share > 0))


def _reaches(moves: csr_array, targets: np.ndarray) -> np.ndarray:
    """Which states `[N]` bool reach one of `targets` `[N]` bool by any number of `moves` `[N, N]`, also by none."""
    to_targets = csr_array(np.append(targets, False)[:, None])
    # The last state, from which nothing leads on, stands for all targets.
    nowhere = csr_array((1, len(targets)))
    with_targets = vstack([moves, nowhere])
    graph = hstack([with_targets, to_targets]).tocsr()
    graph.eliminate_zeros()
    found = np.zeros(len(targets) + 1, bool)
    backwards = graph.T.tocsr()
    reached = breadth_first_order(backwards, len(targets), return_predecessors=False)
    found[reached] = True
    return found[:-1]
