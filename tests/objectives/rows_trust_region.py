"""Declarations of the rows in `catalog/trust_region.py`: on-policy, every limit leaves GRPO's step as it is."""

import numpy as np
from rows import Row, standardised
from token_values import clipped_sequence, sequence_mean, soft_gate


def rule(n, p, r):
    return standardised(n, r)


ROWS = {
    "gspo": Row(True, 0, "equal rewards", rule, tokens=sequence_mean(clipped_sequence(3e-4, 4e-4, mean=True))),
    "gspo(kl=0.04, kl_estimator=k2)": Row(
        True, 0, "equal rewards", lambda n, p, r: rule(n, p, r) - 0.04 * np.log(p * len(p))
    ),
    "gspo_token": Row(
        True, 0, "equal rewards", rule, tokens=sequence_mean(clipped_sequence(3e-4, 4e-4, mean=True, per_token=True))
    ),
    "sapo": Row(True, 0, "equal rewards", rule, tokens=sequence_mean(soft_gate(1.0, 1.05))),
}
