"""The two rewards of an outcome are its reward times its `SHARES`."""

import numpy as np

from tests.objectives.groups import SHARES
from tests.objectives.rows import like_grpo, standardised
from tests.oracles.token_values import PPO


def sum_of_normalised(counts, rewards, weights=(1.0, 1.0)):
    """A batch is one group here."""
    parts = rewards[:, None] * SHARES[: len(rewards)]
    total = sum(weight * standardised(counts, part) for weight, part in zip(weights, parts.T, strict=True))
    return standardised(counts, np.round(total, 9))


ROWS = {
    "gdpo": like_grpo(lambda n, p, r: sum_of_normalised(n, r), tokens=PPO),
    "gdpo(weights=(1.0, 0.25))": like_grpo(lambda n, p, r: sum_of_normalised(n, r, (1.0, 0.25))),
}
