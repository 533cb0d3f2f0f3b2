"""Probability that at least one of k samples is correct, estimated from n >= k samples (arXiv 2107.03374)."""

from collections.abc import Sequence

import numpy as np

from ipsrl.checking.arguments import checked


@checked
def pass_at_k(correct: np.ndarray, samples: int | np.ndarray, k: int) -> np.ndarray:
    """Unbiased estimate of pass@k for every prompt: 1 - C(n - c, k) / C(n, k), float64.

    Computed as 1 - prod_{j < k} (n - c - j) / (n - j), which avoids large binomial coefficients and is exactly 1 if
    fewer than k samples are wrong.

    Args:
      correct: `[...]` int, c, number of correct samples of each prompt.
      samples: n, number of samples of each prompt: one number, or an array that broadcasts with `correct`.
      k: number of samples to try, 1 <= k <= n.

    Raises:
      ValueError: k is not in [1, n], or c is not in [0, n].
    """
    correct, samples = np.broadcast_arrays(np.asarray(correct), np.asarray(samples))
    if k < 1 or np.any(samples < k):
        raise ValueError(f"pass@{k} needs 1 <= k <= number of samples, but a prompt has {samples.min()} samples")
    if np.any(correct < 0) or np.any(correct > samples):
        raise ValueError("the number of correct samples must lie between 0 and the number of samples")
    tried = np.arange(k)
    still_wrong = np.maximum(samples[..., None] - correct[..., None] - tried, 0) / (samples[..., None] - tried)
    return 1.0 - np.prod(still_wrong, axis=-1)


@checked
def mean_pass_at_k(correct: np.ndarray, samples: int | np.ndarray, ks: Sequence[int]) -> dict[int, float]:
    """Mean of `pass_at_k` over all prompts, for each k."""
    return {k: float(pass_at_k(correct, samples, k).mean()) for k in ks}
