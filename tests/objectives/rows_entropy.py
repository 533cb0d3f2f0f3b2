import numpy as np

from tests.objectives.rows import like_grpo, standardised
from tests.objectives.rows_expected_return import entropy_gradient
from tests.oracles.token_values import clipped, token_mean


def into_the_band(counts, probs, rewards, high=0.7):
    """The first band is 0.6 to `high` nats."""
    advantages, entropy = standardised(counts, rewards), -(probs * np.log(probs)).sum()
    direction = (entropy > high) * 1.0 - (entropy < 0.6) * 1.0
    return np.where(direction * advantages >= 0, advantages, 0.0)


ROWS = {
    "aer": like_grpo(tokens=token_mean(clipped(0.2, 0.2))),
    # The mean of 1 - g is the probability of a wrong outcome.
    "aer(weight=complement, alpha=(0.5, 1.0))": like_grpo(
        more=lambda p, r: 0.5 * p[r <= 0].sum() * entropy_gradient(p)
    ),
    # With a target above the first entropy the bonus is on in the second batch.
    "aer(tau=1.7, eta=0.5)": like_grpo(),
    "skywork_entropy": like_grpo(tokens=token_mean(clipped(0.2, 0.2))),
    "skywork_entropy(target=1.7)": like_grpo(),
    "entrocraft": like_grpo(into_the_band, tokens=token_mean(clipped(0.2, 0.2))),
    "entrocraft(steps=1, high_end=1.7)": like_grpo(into_the_band),
    "entrocraft(high_start=1.7)": like_grpo(lambda n, p, r: into_the_band(n, p, r, high=1.7)),
}
