"""Underthinking: how much of wrong answers comes after a thought that would have led to a right one."""

import numpy as np


def underthinking(
    first_correct: np.ndarray, tokens: np.ndarray, right: np.ndarray
) -> dict[str, float]:
    """The underthinking score of TIP (arXiv 2501.18585), where the first correct thought of each answer is known.

        xi_UT = mean over wrong answers of (1 - That / T)

    T is the number of tokens of an answer, That that up to and including its first correct thought; That = T if it
    has none. A wrong answer whose last thought is its first correct one, but was not finished, has 0 as well.

    Args:
      first_correct: `[...]` int, That, or 0 if an answer has no correct thought.
      tokens: `[...]` int, T; an empty answer has 0 and counts as one without a correct thought.
      right: `[...]` bool, whether an answer is right.

    Returns:
      `underthinking`, xi_UT; `weighted_underthinking`, the same with right answers counted as 0, a mean over all (the
      paper's weighted score); and `promising`, the share of the wrong answers that have a correct thought. Without a
      wrong answer all are 0 (our reading: the paper's mean is then over nothing).
    """
    promising = ~right & (first_correct > 0)
    lost = np.where(promising, 1 - first_correct / np.maximum(tokens, 1), 0.0)
    wrong = max(1, int((~right).sum()))
    return {
        "underthinking": float(lost.sum()) / wrong,
        "weighted_underthinking": float(lost.mean()),
        "promising": float(promising.sum()) / wrong,
    }
