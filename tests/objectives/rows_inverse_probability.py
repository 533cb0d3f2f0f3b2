import numpy as np
from scipy.optimize import brentq

from tests.objectives.rows import Row, centred, standardised
from tests.oracles.token_values import PPO, clipped, constant_length, policy_gradient, sequence_sum


def affordable(counts, probability, alpha, share):
    """The largest exponent up to alpha that leaves an effective sample size of `share` of the group."""
    group = counts.sum()

    def left(exponent):
        weights = np.where(counts > 0, probability, 1.0) ** -exponent
        return (counts * weights).sum() ** 2 / (counts * weights**2).sum() - share * group

    return alpha if left(alpha) >= 0 else brentq(left, 0.0, alpha, xtol=1e-12)


def by_counts(counts, rewards, alpha=1.0, floor=0.0, pseudo_count=0.0, share=0.0):
    frequency = np.maximum(counts + pseudo_count, 1e-9) / (counts.sum() + pseudo_count)
    probability = np.maximum(frequency, floor)
    return rewards / probability ** affordable(counts, probability, alpha, share) * (counts > 0)


def by_distribution(counts, probs, rewards, alpha=1.0, share=0.0):
    weights = rewards / probs ** affordable(counts, probs, alpha, share)
    mean = (counts * weights).sum() / counts.sum()
    return weights / mean if mean > 0 else 0 * weights


ROWS = {
    "ips_reinforce": Row(False, 1, "no reward", lambda n, p, r: by_counts(n, r), tokens=sequence_sum(policy_gradient)),
    "ips_reinforce(alpha=0.5, floor=0.3)": Row(False, 1, "no reward", lambda n, p, r: by_counts(n, r, 0.5, 0.3)),
    "ips_reinforce(alpha=0.5, probability=offset)": Row(
        False, 1, "no reward", lambda n, p, r: by_counts(n, r, 0.5, pseudo_count=-0.25)
    ),
    "ips_reinforce(alpha=effective(0.8, at_most=2.0))": Row(
        False, 1, "no reward", lambda n, p, r: by_counts(n, r, 2.0, share=0.8)
    ),
    # The running mean takes the scale of the rewards out, whatever comes after it.
    "ips_reinforce(alpha=0.5, probability=exact)": Row(
        False, 0, "no reward", lambda n, p, r: by_distribution(n, p, r, 0.5)
    ),
    # There is one way to an arm, whatever was learned.
    "ips_reinforce(probability=exact(backward=learned))": Row(
        False, 0, "no reward", lambda n, p, r: by_distribution(n, p, r)
    ),
    # One trajectory leads to an arm.
    "ips_reinforce(probability=exact(backward=none))": Row(
        False, 0, "no reward", lambda n, p, r: by_distribution(n, p, r)
    ),
    "ips_reinforce(kl=k2(0.3))": Row(False, 1, "no reward", lambda n, p, r: by_counts(n, r) - 0.3 * np.log(p * len(p))),
    "ips_grpo": Row(False, 0, "one outcome", lambda n, p, r: standardised(n, by_counts(n, r)), tokens=PPO),
    "ips_grpo(alpha=0.5, floor=0.4)": Row(
        False, 0, "one outcome", lambda n, p, r: standardised(n, by_counts(n, r, 0.5, 0.4))
    ),
    "ips_grpo(probability=counts(pseudo_count=1.0))": Row(
        False, 0, "one outcome", lambda n, p, r: standardised(n, by_counts(n, r, pseudo_count=1.0))
    ),
    # In the first batch the moving average is the batch's own frequency.
    "ips_grpo(alpha=2.0, probability=ema)": Row(
        False, 0, "one outcome", lambda n, p, r: standardised(n, by_counts(n, r, 2.0))
    ),
    "ips_grpo(probability=exact)": Row(
        False, 0, "no reward", lambda n, p, r: standardised(n, by_distribution(n, p, r))
    ),
    "ips_dr_grpo": Row(
        False, 1, "one outcome", lambda n, p, r: centred(n, by_counts(n, r)), tokens=constant_length(clipped(0.2, 0.2))
    ),
    "ips_dr_grpo(kl=k2(0.3))": Row(
        False, 1, "one outcome", lambda n, p, r: centred(n, by_counts(n, r)) - 0.3 * np.log(p * len(p))
    ),
    "ips_dr_grpo(alpha=2.0)": Row(False, 1, "one outcome", lambda n, p, r: centred(n, by_counts(n, r, 2.0))),
    "ips_dr_grpo(probability=ema, floor=0.3)": Row(
        False, 1, "one outcome", lambda n, p, r: centred(n, by_counts(n, r, floor=0.3))
    ),
    "ips_dr_grpo(probability=exact)": Row(False, 0, "no reward", lambda n, p, r: centred(n, by_distribution(n, p, r))),
    "ips_dr_grpo(probability=exact, alpha=effective(0.7))": Row(
        False, 0, "no reward", lambda n, p, r: centred(n, by_distribution(n, p, r, share=0.7))
    ),
}
