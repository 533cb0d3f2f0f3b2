import numpy as np

from tests.objectives.rows import Row, like_grpo, standardised
from tests.oracles.token_values import bounded, clipped, sequence_mean, token_mean


def shifted(counts, probs, rewards, alpha=0.3):
    """ARM with prompt confidence 0.35; the confidence in a one-token answer is its probability."""
    shift = alpha * (0.35 - probs) if (counts * rewards).any() else 0.0
    return standardised(counts, rewards) + shift


def shifted_to_correct(counts, probs, rewards):
    correct = counts * (rewards > 0)
    level = (correct * probs).sum() / max(correct.sum(), 1)
    shift = 0.3 * (level - probs) if correct.any() else 0.0
    return standardised(counts, rewards) + shift


def shifted_where_mixed(counts, probs, rewards):
    advantages = standardised(counts, rewards)
    return advantages + 0.3 * (0.35 - probs) if advantages.any() else advantages


def protected(counts, probs, rewards, kappa=0.3, rho=0.9, coefficient=2.0, released=False):
    """Lp-Reg where the proxy is not the policy: each protected token adds proxy - p to the update of the logits.

    As advantages: proxy shared among the samples of each outcome, all of which are in a group with a protected token
    (three outcomes, one of which is noise: a token has to be more likely for another one to be unlikely). Released: the
    token's own log-probability is pulled up with the slope proxy / p - 1.
    """
    advantages = standardised(counts, rewards)
    proxy = np.where(probs > kappa * probs.max(), probs, 0.0)
    proxy = proxy / proxy.sum()
    ranked = np.repeat(probs, counts * (advantages < -1e-9) if released else counts)
    if not len(ranked):
        return advantages
    chosen = (counts > 0) & (advantages < -1e-9) & (proxy > 0) & (probs < np.quantile(ranked, rho))
    if released:
        return advantages + coefficient * np.where(chosen, proxy / probs - 1, 0.0)
    if chosen.any():
        assert (counts[proxy > 0] > 0).all()
    return advantages + coefficient * (counts * chosen).sum() * proxy / np.maximum(counts, 1)


ROWS = {
    # A shift turns wrong answers into correct ones; the gate and the set of correct answers notice.
    "progrpo": Row(
        False,
        0,
        "no reward",
        shifted,
        tokens=token_mean(clipped(0.2, 0.28)),
        lengths="the confidence is a mean over tokens: see test_parts.py",
    ),
    "progrpo(reference=correct)": Row(False, 0, "no reward", shifted_to_correct),
    "progrpo(gate=mixed)": like_grpo(shifted_where_mixed),
    # Both steps of Lopti at the same parameters add up to one.
    "ar_lopti": like_grpo(
        lambda n, p, r: standardised(n, r) * (0.3 * p + 0.7), tokens=sequence_mean(clipped(0.2, 0.24))
    ),
    "ar_lopti(lopti=False)": like_grpo(lambda n, p, r: standardised(n, r) * (0.2 * p + 0.8)),
    # The bandit's distribution has no noise for kappa = 0.02 or 0.2 to take out: the proxy is the policy and pulls
    # nowhere.
    "lp_reg": like_grpo(tokens=token_mean(bounded(10.0))),
    "lp_reg(kappa=0.2, rho=0.5)": like_grpo(),
    "lp_reg(form=code)": like_grpo(),
    "lp_reg(kappa=0.3, rho=0.9, coefficient=2.0)": like_grpo(protected),
    "lp_reg(kappa=0.3, rho=0.9, coefficient=2.0, form=code)": like_grpo(
        lambda n, p, r: protected(n, p, r, released=True)
    ),
}
