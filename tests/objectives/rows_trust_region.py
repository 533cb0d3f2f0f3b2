"""On-policy, every limit leaves GRPO's step as it is."""

import numpy as np

from tests.objectives.rows import like_dr_grpo, like_grpo, standardised
from tests.objectives.rows_expected_return import k3_gradient
from tests.oracles.token_values import (
    clipped_sequence,
    gamma_weight,
    geometric_mean,
    mirror_descent,
    probability_clip,
    sequence_mean,
    sequence_sum,
    soft_gate,
    token_mean,
)

ROWS = {
    "gspo": like_grpo(tokens=sequence_mean(clipped_sequence(3e-4, 4e-4, mean=True))),
    "gspo(kl=k2(0.04))": like_grpo(lambda n, p, r: standardised(n, r) - 0.04 * np.log(p * len(p))),
    "gspo(correction=masked(0.7, 1.3, level=geometric))": like_grpo(),
    "gspo_token": like_grpo(tokens=sequence_mean(clipped_sequence(3e-4, 4e-4, mean=True, per_token=True))),
    "luspo": like_grpo(tokens=sequence_sum(clipped_sequence(2e-3, 2.5e-3, mean=True))),
    "luspo(clip=(0.1, 0.3))": like_grpo(tokens=sequence_sum(clipped_sequence(0.1, 0.3, mean=True))),
    "vespo": like_grpo(tokens=token_mean(gamma_weight((2.0, 3.0), (3.0, 2.0)))),
    "vespo(positive=(1.5, 0.5), negative=(0.5, 1.0))": like_grpo(
        tokens=token_mean(gamma_weight((1.5, 0.5), (0.5, 1.0)))
    ),
    "gmpo": like_grpo(tokens=sequence_mean(geometric_mean(0.4, 0.4))),
    "gmpo(kl=0.04)": like_grpo(lambda n, p, r: standardised(n, r) - 0.04 * k3_gradient(p)),
    "kimi_mirror_descent": like_dr_grpo(tokens=sequence_sum(mirror_descent(0.1))),
    "kimi_mirror_descent(of=token)": like_dr_grpo(tokens=sequence_sum(mirror_descent(0.1, whole=False))),
    # Each batch of these tests is the first.
    "dcpo": like_grpo(tokens=sequence_mean(probability_clip(0.16, 0.2, 10.0))),
    "dcpo(clip=(0.05, 0.1), limit=1.2, unbiased_std=True)": like_grpo(
        lambda n, p, r: standardised(n, r, unbiased=True), tokens=sequence_mean(probability_clip(0.05, 0.1, 1.2))
    ),
    "sapo": like_grpo(tokens=sequence_mean(soft_gate(1.0, 1.05))),
}
