"""The entropy law, R = -a exp(H) + b (arXiv 2505.22617): fitted to the beginning of training, asked about the rest."""

import numpy as np

from ipsrl.checking.arguments import checked


@checked
def foretold(entropy: np.ndarray, reward: np.ndarray, first: int) -> dict[str, np.ndarray]:
    """Predictions of the law, fitted to the first records of each run by least squares.

    Args:
      entropy, reward: `[S, U]`, H in nats and R of S runs.
      first: number of records that are fitted, from 2 to U - 1.

    Returns:
      name -> `[S, U]` or `[S, 1]`, NaN if the entropy does not change in the fitted records.
      predicted: R by the law, from H as measured.
      a, b, ceiling: the coefficients, and b - a, the reward at H = 0.
      fit_error, rest_error: root mean square of `predicted` - R over the fitted records, and over the others.
      gain: by how much the `rest_error` of a line in H is larger.
      constant_error: that of the reward of the last fitted record, repeated.
      ceiling_error: `ceiling` - R of the last record.

    Raises:
      ValueError: the shapes differ, or too few or too many records are fitted.
    """
    if entropy.ndim != 2 or entropy.shape != reward.shape or not 2 <= first < entropy.shape[1]:
        raise ValueError(
            f"entropy {entropy.shape} and reward {reward.shape} must be [run, record], and first, {first}, from 2 to "
            "one less than the records"
        )
    slope, b = _line(np.exp(entropy), reward, first)
    of_entropy, at_zero = _line(entropy, reward, first)
    error = slope * np.exp(entropy) + b - reward
    of_placebo = of_entropy * entropy + at_zero - reward
    repeated = reward[:, first - 1 : first] - reward[:, first:]
    rest_error = _root_mean_square(error[:, first:])
    return {
        "predicted": error + reward,
        "a": -slope,
        "b": b,
        "ceiling": b + slope,
        "fit_error": _root_mean_square(error[:, :first]),
        "rest_error": rest_error,
        "gain": _root_mean_square(of_placebo[:, first:]) - rest_error,
        "constant_error": _root_mean_square(repeated),
        "ceiling_error": b + slope - reward[:, -1:],
    }


def _line(x: np.ndarray, y: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and intercepts `[S, 1]` of least squares over the first records."""
    x, y = x[:, :first], y[:, :first]
    mean = x.mean(axis=1, keepdims=True)
    spread = ((x - mean) ** 2).sum(axis=1, keepdims=True)
    product = ((x - mean) * y).sum(axis=1, keepdims=True)
    slope = product / np.where(spread > 1e-12, spread, np.nan)
    return slope, y.mean(axis=1, keepdims=True) - slope * mean


def _root_mean_square(errors: np.ndarray) -> np.ndarray:
    return np.sqrt((errors**2).mean(axis=1, keepdims=True))
