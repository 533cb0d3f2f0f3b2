"""Declarations of the rows in `catalog/structure.py`; in the rules n are counts, p the law, r the rewards."""

import numpy as np
from rows import Row, centred, standardised
from rows_expected_return import entropy_gradient, k3_gradient
from token_values import clipped, constant_length, control_and_response, sequence_mean, shaped_elsewhere


def distinct(counts, rewards, tau, over="mean", baseline="kept"):
    """DaGRPO: on a bandit different outcomes share no token and no outcome."""
    group = np.repeat(np.arange(len(rewards)), counts)
    values = rewards[group]
    side = np.sign(values - values.mean())
    kept = []
    for i in range(len(group)):
        gaps = np.abs(values[i] - values[side == -side[i]]) if side[i] else np.array([])
        kept.append(len(gaps) > 0 and (gaps.max() if over == "max" else gaps.mean()) >= tau)
    kept = np.array(kept)
    if not kept.any():
        return 0 * rewards
    among = values[kept] if baseline == "kept" else values
    outcome_kept = np.isin(np.arange(len(rewards)), group[kept])
    std = among.std()
    return outcome_kept * (rewards - among.mean()) / std * len(group) / kept.sum() if std > 1e-9 else 0 * rewards


def raised(advantages, alpha=0.2, failures=-1.0):
    return advantages + alpha * np.where(advantages < 0, failures * advantages, advantages)


def modes(counts, rewards, delta=0.2, alpha=1.0):
    """HGPO where the first outcome thinks: the best of its mode, and the better mode."""
    there = counts > 0
    best = np.where(np.arange(len(rewards)) == 0, there, rewards == rewards[1:][there[1:]].max(initial=-1.0))
    within = standardised(counts, best.astype(float))
    if not (there[0] and there[1:].any()):
        return within
    first_is_better = rewards[0] > (counts * rewards)[1:].sum() / counts[1:].sum() + delta
    better = np.where(np.arange(len(rewards)) == 0, first_is_better, not first_is_better)
    return within + alpha * standardised(counts, better.astype(float))


ROWS = {
    # All tokens of a bandit plan and all answers have the same length: one stratum.
    "stratified_grpo": Row(
        True,
        0,
        "equal rewards",
        lambda n, p, r: standardised(n, r),
        tokens=sequence_mean(clipped(0.2, 0.2)),
        lengths="strata are counts of planning tokens: see test_strata.py",
    ),
    "stratified_grpo(stratum=length, width=2, standardise=False)": Row(
        True, 1, "equal rewards", lambda n, p, r: centred(n, r)
    ),
    # Each outcome is a stratum, in which all rewards are equal.
    "stratified_grpo(stratum=first_token)": Row(True, 0, "equal rewards", lambda n, p, r: 0.2 * standardised(n, r)),
    # The threshold is in units of reward.
    "dagrpo": Row(
        True, None, "equal rewards", lambda n, p, r: distinct(n, r, 0.5), tokens=sequence_mean(clipped(0.2, 0.2))
    ),
    "dagrpo(tau=0.9)": Row(True, None, "equal rewards", lambda n, p, r: distinct(n, r, 0.9)),
    "dagrpo(tau=0.4, over=max, baseline=group, similarity=outcome, anchors=True, gamma=0.2)": Row(
        True, None, "equal rewards", lambda n, p, r: distinct(n, r, 0.4, "max", "group")
    ),
    "critique_grpo": Row(
        True,
        1,
        "equal rewards",
        lambda n, p, r: centred(n, r),
        more=lambda p, r: 0.001 * entropy_gradient(p),
        tokens=constant_length(shaped_elsewhere(0.1)),
    ),
    "critique_grpo(gamma=None, clip_low=0.2, clip_high=0.28, entropy=0.0)": Row(
        True, 1, "equal rewards", lambda n, p, r: centred(n, r)
    ),
    "hicra": Row(
        True, 1, "equal rewards", lambda n, p, r: raised(centred(n, r)), tokens=sequence_mean(clipped(0.2, 0.28))
    ),
    "hicra(planned=random, failures=sharpened)": Row(
        True, 1, "equal rewards", lambda n, p, r: raised(centred(n, r), failures=1.0), draws=True
    ),
    "hicra(planned=high_entropy, failures=kept)": Row(
        True, 1, "equal rewards", lambda n, p, r: raised(centred(n, r), failures=0.0)
    ),
    "hicra(planned=first, standardise=True)": Row(True, 0, "equal rewards", lambda n, p, r: raised(standardised(n, r))),
    "degrpo": Row(
        True,
        1,
        "equal rewards",
        "a bandit's only token has the weight 1/1000: see the rows below",
        tokens=control_and_response(0.001, clipped(0.2, 0.2)),
    ),
    "degrpo(alpha=0.5)": Row(True, 1, "equal rewards", lambda n, p, r: 0.5 * centred(n, r) - 0.001 * k3_gradient(p)),
    "degrpo(alpha=0.5, response=token_mean, standardise=True, kl=0.04)": Row(
        True, 0, "equal rewards", lambda n, p, r: 0.5 * standardised(n, r) - 0.04 * k3_gradient(p)
    ),
    # The head start is in units of reward, and decides where rewards are equal.
    "hgpo": Row(
        True,
        None,
        "never",
        lambda n, p, r: modes(n, r) - 0.001 * k3_gradient(p),
        tokens=sequence_mean(clipped(0.5, 0.5)),
    ),
    "hgpo(delta=0.0, alpha=0.5, kl=0.0)": Row(True, 0, "equal rewards", lambda n, p, r: modes(n, r, 0.0, 0.5)),
}
