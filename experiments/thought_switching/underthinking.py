"""Underthinking: how much of wrong answers comes after a thought that would have led to a right one."""

import numpy as np

from ipsrl.arguments import checked


@checked
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
      `score`, xi_UT; `weighted`, the same with right answers counted as 0, a mean over all (the paper's weighted
      score); and `promising`, the share of the wrong answers that have a correct thought. Without a wrong answer all
      are 0 (our reading: the paper's mean is then over nothing).

    Raises:
      ValueError: the shapes differ, there is no answer, or a first correct thought ends outside its answer.
    """
    right = np.asarray(right, bool)
    if not first_correct.shape == tokens.shape == right.shape or not right.size:
        raise ValueError(
            f"first_correct {first_correct.shape}, tokens {tokens.shape} and right {right.shape} must have the same "
            "shape, with one answer or more"
        )
    if np.any(first_correct < 0) or np.any(first_correct > tokens):
        raise ValueError("first_correct must lie between 0 and the number of tokens of each answer")
    promising = ~right & (first_correct > 0)
    lost = np.where(promising, 1 - first_correct / np.maximum(tokens, 1), 0.0)
    wrong = max(1, int((~right).sum()))
    return {
        "score": float(lost.sum()) / wrong,
        "weighted": float(lost.mean()),
        "promising": float(promising.sum()) / wrong,
    }
