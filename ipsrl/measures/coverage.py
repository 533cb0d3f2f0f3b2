"""The share of the right answers that k tries contain, beside the probability that one try is right at all.

    pass_at_k      at least one of k answers is right
    covered_at_k   share of a prompt's right answers that are among k answers: pass@k of a test that accepts only one of
                   them, each in turn
    effective_outcomes   exp(H) of the right answers

All are means over prompts.
"""

from collections.abc import Sequence

import numpy as np

from ipsrl.checking.arguments import checked
from ipsrl.measures.pass_at_k import pass_at_k


@checked
def mean_covered_at_k(outcome_id: np.ndarray, right: np.ndarray, tries: Sequence[int]) -> dict[int, float]:
    """Unbiased estimates of covered_at_k from n answers to each prompt (arXiv 2107.03374, for each right answer).

    Args:
      outcome_id: `[P, n]` int; what is negative, or K and above, is not counted.
      right: `[P, K]` bool, at least one for each prompt.
      tries: the numbers k, at most n.
    """
    answers, outcomes = outcome_id.shape[1], right.shape[1]
    known = [of_prompt[(of_prompt >= 0) & (of_prompt < outcomes)] for of_prompt in outcome_id]
    counts = np.stack([np.bincount(of_prompt, minlength=outcomes) for of_prompt in known])
    share = right / right.sum(axis=1, keepdims=True)
    return {k: float((pass_at_k(counts, answers, k) * share).sum(axis=1).mean()) for k in tries}
