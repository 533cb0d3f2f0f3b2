import numpy as np

from tests.objectives.rows import centred, like_grpo, standardised
from tests.oracles.token_values import bounded, clipped, token_mean


def all_candidates_dropped(counts, probs, rewards, lowest=1.0):
    """Clip-Cov that drops all its candidates: in a group, the means weigh outcomes by their counts."""
    advantages = standardised(counts, rewards)
    covariance = centred(counts, np.log(probs)) * centred(counts, advantages)
    return np.where((covariance > lowest) & (covariance < 5), 0.0, advantages)


ROWS = {
    "clip_cov": like_grpo(
        "it draws one of its candidates: see clip_cov(fraction=1.0), and test_covariance.py",
        random=True,
        tokens=token_mean(clipped(0.2, 0.2)),
    ),
    "clip_cov(fraction=1.0)": like_grpo(all_candidates_dropped),
    "clip_cov(fraction=1.0, lowest=0.1)": like_grpo(lambda n, p, r: all_candidates_dropped(n, p, r, lowest=0.1)),
    "kl_cov": like_grpo(tokens=token_mean(bounded(np.inf))),
}
