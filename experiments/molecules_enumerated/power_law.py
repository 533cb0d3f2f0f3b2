"""The powers of known quantities that a distribution over K known outcomes follows: p_k = c * a_k^x * b_k^y * ..

A policy that samples in proportion to its rewards has the exponent 1 of the reward and 0 of everything else.
"""

import numpy as np

LEAST = 1e-38
"""Lower probabilities count as this one: a collapsed policy in float32 has zeros."""


def exponents(probs: np.ndarray, quantities: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """`[..., Q]` float64, x, y, .. by weighted least squares of log p on the logarithms of Q quantities and a constant.

    Where the quantities do not differ, or not independently, the shortest vector of exponents is taken. Of a policy
    that has lost outcomes it is a summary only: their logarithms are far from any line.

    Args:
      probs: `[..., K]`.
      quantities: `[Q, K]`, positive.
      weights: `[K]`, not negative; of the squared errors.

    Raises:
      ValueError: a quantity is not positive, a weight is negative, or the shapes differ.
    """
    quantities = np.asarray(quantities, np.float64)
    weights = np.asarray(weights, np.float64)
    if not np.shape(probs)[-1:] == quantities.shape[1:] == weights.shape:
        raise ValueError(
            f"probs {np.shape(probs)}, quantities {quantities.shape} and weights {weights.shape} must have the shapes "
            "[..., K], [Q, K] and [K]"
        )
    if not (quantities > 0).all() or not (weights >= 0).all():
        raise ValueError("all quantities must be positive, and no weight may be negative")
    # Plain least squares after both sides are multiplied by the roots of the weights.
    roots = np.sqrt(weights)
    constant = np.ones((1, len(weights)))
    predictors = np.concatenate([constant, np.log(quantities)]) * roots
    fit = np.linalg.pinv(predictors)
    log_probs = np.log(np.maximum(probs, LEAST))
    return (roots * log_probs) @ fit[:, 1:]
