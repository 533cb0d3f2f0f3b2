import numpy as np

from tests.objectives.rows import Row, centred, like_grpo, never_silent, standardised
from tests.oracles.token_values import clipped, policy_gradient, token_mean, whitened


def by_nonzero(counts, rewards):
    return centred(counts, rewards) * counts.sum() / max(counts[rewards != 0].sum(), 1)


ROWS = {
    # Enumerated, each group is a batch of its own.
    "reinforce_plus_plus": like_grpo(tokens=token_mean(clipped(0.2, 0.2)), lengths=whitened(lambda rewards: rewards)),
    "reinforce_plus_plus(kl=0.05, unbiased_std=True)": never_silent(
        lambda n, p, r: standardised(n, r - 0.05 * np.log(p * len(p)), unbiased=True)
    ),
    "reinforce_plus_plus(kl=k2(0.05, place=loss))": like_grpo(
        lambda n, p, r: standardised(n, r) - 0.05 * np.log(p * len(p))
    ),
    # Discounted, a reward is worth less in a longer answer.
    "reinforce_plus_plus(gamma=0.5)": Row(
        False, 0, "no reward", lambda n, p, r: standardised(n, r), reads_dictated=True
    ),
    "reinforce_plus_plus_baseline": like_grpo(
        tokens=token_mean(clipped(0.2, 0.2)),
        lengths=whitened(lambda rewards: rewards - rewards.mean(axis=-1, keepdims=True)),
    ),
    "gpg": Row(False, 1, "equal rewards", lambda n, p, r: by_nonzero(n, r), tokens=token_mean(policy_gradient)),
    "lite_ppo": like_grpo(tokens=token_mean(clipped(0.2, 0.2))),
    "lite_ppo(unbiased_std=True)": like_grpo(lambda n, p, r: standardised(n, r, unbiased=True)),
}
