"""Declarations of the rows in `catalog/clipping.py`; n are counts, p the distribution, r the rewards.

On-policy every ratio is 1, inside all limits, and pi = mu: what is left is the advantage, but where tokens are chosen
by their covariance.
"""

import numpy as np

from tests.objectives.rows import centred, like_dr_grpo, like_grpo, standardised
from tests.objectives.rows_expected_return import k3_gradient
from tests.objectives.token_values import (
    balanced,
    bounded,
    clipped,
    constant_length,
    divergence_mask,
    flipped,
    gradient_preserving,
    token_mean,
    truncated,
)


def all_candidates_dropped(counts, probs, rewards, lowest=1.0):
    """Clip-Cov that drops all its candidates: in a group, the means weigh outcomes by their counts."""
    advantages = standardised(counts, rewards)
    covariance = centred(counts, np.log(probs)) * centred(counts, advantages)
    return np.where((covariance > lowest) & (covariance < 5), 0.0, advantages)


ROWS = {
    "gppo": like_grpo(tokens=token_mean(gradient_preserving(0.2, 0.28, dual_clip=10.0))),
    "ce_gppo": like_grpo(tokens=token_mean(gradient_preserving(0.2, 0.2, beta_low=0.75))),
    "cispo": like_grpo(tokens=token_mean(truncated(5.0))),
    "aspo": like_grpo(tokens=token_mean(flipped(0.2, 0.2, 3.0))),
    "aspo(clip=(0.1, 0.4), cap=1.3, kl=0.04)": like_grpo(
        lambda n, p, r: standardised(n, r) - 0.04 * k3_gradient(p), tokens=token_mean(flipped(0.1, 0.4, 1.3))
    ),
    "bapo": like_grpo(tokens=token_mean(balanced(0.4, 0.6, 0.9, 0.02, 1.2, 3.0, 0.05))),
    # With targets that are out of reach the limits walk to their ends.
    "bapo(target=0.9, low=(0.5, 0.9, 0.02), high=(1.2, 1.5, 0.05))": like_grpo(),
    "bapo(form=code, target=9.0)": like_grpo(),
    "dppo": like_dr_grpo(tokens=constant_length(divergence_mask(0.15))),
    "dppo(divergence=binary_kl)": like_dr_grpo(),
    "dppo(divergence=top_tv)": like_dr_grpo(),
    "dppo(divergence=top_kl)": like_dr_grpo(),
    "clip_cov": like_grpo(
        "it draws one of its candidates: see clip_cov(fraction=1.0), and test_token_selection.py",
        random=True,
        tokens=token_mean(clipped(0.2, 0.2)),
    ),
    "clip_cov(fraction=1.0)": like_grpo(all_candidates_dropped),
    "clip_cov(fraction=1.0, lowest=0.1)": like_grpo(lambda n, p, r: all_candidates_dropped(n, p, r, lowest=0.1)),
    "kl_cov": like_grpo(tokens=token_mean(bounded(np.inf))),
}
