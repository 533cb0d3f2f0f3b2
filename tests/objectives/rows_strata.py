import numpy as np

from tests.objectives.rows import like_dr_grpo, like_grpo, never_silent, standardised
from tests.objectives.rows_expected_return import k3_gradient
from tests.oracles.token_values import PPO, clipped, sequence_mean


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
    "stratified_grpo": like_grpo(tokens=PPO, lengths="strata are counts of planning tokens: see test_strata.py"),
    "stratified_grpo(stratum=length, width=2, standardise=False)": like_dr_grpo(),
    # Each outcome is a stratum, in which all rewards are equal.
    "stratified_grpo(stratum=first_token)": like_grpo(lambda n, p, r: 0.2 * standardised(n, r)),
    # The head start is in units of reward, and decides where rewards are equal.
    "hgpo": never_silent(
        lambda n, p, r: modes(n, r) - 0.001 * k3_gradient(p),
        tokens=sequence_mean(clipped(0.5, 0.5)),
    ),
    "hgpo(delta=0.0, alpha=0.5, kl=0.0)": like_grpo(lambda n, p, r: modes(n, r, 0.0, 0.5)),
}
