"""Declarations of the rows in `catalog/expected_return.py`; in the rules n are counts, p the law, r the rewards."""

import numpy as np
from rows import Row, centred, standardised


def k3_gradient(law):
    """1 - exp(-d), d = log p - log of the uniform reference."""
    return 1 - 1 / (law * len(law))


def entropy_gradient(law):
    """Of the entropy by the logits."""
    surprise = -np.log(law)
    return law * (surprise - law @ surprise)


ROWS = {
    "reinforce": Row(False, 1, "no reward", lambda n, p, r: r),
    "grpo": Row(True, 0, "equal rewards", lambda n, p, r: standardised(n, r)),
    "grpo(kl=0.04, entropy=0.01, unbiased_std=True)": Row(
        True,
        0,
        "equal rewards",
        lambda n, p, r: standardised(n, r, unbiased=True) - 0.04 * k3_gradient(p),
        more=lambda p, r: 0.01 * entropy_gradient(p),
    ),
    "grpo(kl=0.04, kl_estimator=k2)": Row(
        True, 0, "equal rewards", lambda n, p, r: standardised(n, r) - 0.04 * np.log(p * len(p))
    ),
    "dr_grpo": Row(True, 1, "equal rewards", lambda n, p, r: centred(n, r)),
}
