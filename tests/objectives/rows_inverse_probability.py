"""Declarations of the rows in `catalog/inverse_probability.py`; n are counts, p the law, r the rewards."""

import numpy as np
from rows import Row, centred, standardised


def by_counts(counts, rewards, alpha=1.0, floor=0.0):
    return rewards / np.maximum(counts / counts.sum(), floor or 1e-9) ** alpha * (counts > 0)


def by_law(counts, law, rewards, alpha=1.0):
    weights = rewards / law**alpha
    mean = (counts * weights).sum() / counts.sum()
    return weights / mean if mean > 0 else 0 * weights


ROWS = {
    "ips_reinforce": Row(False, 1, "no reward", lambda n, p, r: by_counts(n, r)),
    "ips_reinforce(alpha=0.5, floor=0.3)": Row(False, 1, "no reward", lambda n, p, r: by_counts(n, r, 0.5, 0.3)),
    # The running mean takes the scale of the rewards out, whatever comes after it.
    "ips_reinforce(alpha=0.5, probability=exact)": Row(False, 0, "no reward", lambda n, p, r: by_law(n, p, r, 0.5)),
    "ips_grpo": Row(False, 0, "one outcome", lambda n, p, r: standardised(n, by_counts(n, r))),
    "ips_grpo(alpha=0.5, floor=0.4)": Row(
        False, 0, "one outcome", lambda n, p, r: standardised(n, by_counts(n, r, 0.5, 0.4))
    ),
    "ips_grpo(probability=exact)": Row(False, 0, "no reward", lambda n, p, r: standardised(n, by_law(n, p, r))),
    "ips_dr_grpo": Row(False, 1, "one outcome", lambda n, p, r: centred(n, by_counts(n, r))),
    "ips_dr_grpo(alpha=2.0)": Row(False, 1, "one outcome", lambda n, p, r: centred(n, by_counts(n, r, 2.0))),
    "ips_dr_grpo(probability=exact)": Row(False, 0, "no reward", lambda n, p, r: centred(n, by_law(n, p, r))),
}
