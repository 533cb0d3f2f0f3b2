import numpy as np

from tests.objectives.rows import Row, like_dr_grpo, like_grpo, standardised
from tests.oracles.token_values import clipped, policy_gradient, sequence_sum, token_mean


def among_best(counts, rewards, kept=0.5):
    """Advantages by definition: the sorted group's best part, with all that are as good as the last of it."""
    group = np.sort(np.repeat(rewards, counts))[::-1]
    chosen = rewards >= group[int(np.ceil(kept * len(group))) - 1]
    return np.where(chosen, standardised(counts * chosen, rewards), 0)


def among_shortest(rewards, mask):
    length = mask.sum(axis=-1)
    found = np.zeros(rewards.shape)
    for group, (values, lengths) in enumerate(zip(rewards, length, strict=True)):
        chosen = lengths <= np.sort(lengths)[int(np.ceil(len(lengths) / 2)) - 1]
        found[group, chosen] = standardised(np.ones(chosen.sum()), values[chosen])
    return found


def less_mean_by_length(rewards, mask):
    length = mask.sum(axis=-1)
    return rewards - (length * rewards).sum(axis=-1, keepdims=True) / length.sum(axis=-1, keepdims=True)


ROWS = {
    # Groups of equal rewards are silent where the greedy answer has them too, as in the generated tests.
    "remax": like_dr_grpo(lambda n, p, r: r - r[np.argmax(p)], tokens=sequence_sum(policy_gradient)),
    # Of its first batch, see test_baselines.py for what comes later.
    "spo": like_grpo(tokens=token_mean(clipped(0.2, 0.28))),
    "gfpo": like_grpo(tokens=token_mean(clipped(0.2, 0.2)), lengths=among_shortest),
    "gfpo(by=reward_per_token)": Row(False, 0, "equal rewards", lambda n, p, r: among_best(n, r)),
    "gfpo(kept=0.3, by=reward_per_token)": Row(False, 0, "equal rewards", lambda n, p, r: among_best(n, r, 0.3)),
    # On a bandit all answers are equally long.
    "opo": like_dr_grpo(tokens=token_mean(clipped(0.2, 0.2)), lengths=less_mean_by_length),
}
