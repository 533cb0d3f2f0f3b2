import numpy as np

from tests.objectives.rows import like_grpo
from tests.oracles.token_values import pairs, sequence_mean, squared_pairs


def pairwise(counts, probs, rewards, beta, slope=lambda u: 1 / u, link=np.log, imitation=0.0):
    """The derivative by the log-probabilities of the samples of an outcome, times the size of the group."""
    ratio = probs * len(probs)  # the reference is uniform
    advantages, pairs = np.zeros(len(probs)), 0
    for winner in range(len(probs)):
        for loser in range(len(probs)):
            if rewards[winner] > rewards[loser]:
                pairs += counts[winner] * counts[loser]
                margin = beta * (link(ratio[winner]) - link(ratio[loser]))
                push = beta / (1 + np.exp(margin))
                advantages[winner] += counts[loser] * (push * slope(ratio[winner]) * ratio[winner] + imitation)
                advantages[loser] -= counts[winner] * push * slope(ratio[loser]) * ratio[loser]
    return advantages * counts.sum() / max(pairs, 1)


def squared(counts, probs, rewards, beta):
    """The derivative of `pairwise`, for the loss (difference of log-ratios - 1 / (2 beta))^2."""
    log_ratio = np.log(probs * len(probs))
    order = rewards[:, None] > rewards
    push = np.where(order, 2 * (1 / (2 * beta) - log_ratio[:, None] + log_ratio), 0.0)
    pairs = (order * np.outer(counts, counts)).sum()
    return (push @ counts - counts @ push) * counts.sum() / max(pairs, 1)


def row(tokens=None, **arguments):
    return like_grpo(lambda n, p, r: pairwise(n, p, r, **arguments), tokens=tokens)


ROWS = {
    "dpo": row(beta=0.1, tokens=sequence_mean(pairs(0.1))),
    "f_dpo": row(
        beta=0.1,
        slope=lambda u: 1 / (u * (1 + u)),
        link=lambda u: np.log(2 * u / (1 + u)),
        tokens=sequence_mean(pairs(0.1, lambda u: np.log(2) - np.log1p(np.exp(-u)))),
    ),
    "f_dpo(divergence=forward_kl, beta=0.5)": row(beta=0.5, slope=lambda u: u**-2.0, link=lambda u: -1 / u),
    "f_dpo(divergence=alpha, alpha=0.3)": row(beta=0.1, slope=lambda u: u**-1.3, link=lambda u: (1 - u**-0.3) / 0.3),
    "f_dpo(divergence=reverse_kl)": row(beta=0.1),
    "rpo": row(beta=0.5, imitation=0.2, tokens=sequence_mean(pairs(0.5, imitation=0.2))),
    "ipo": like_grpo(lambda n, p, r: squared(n, p, r, 0.1), tokens=sequence_mean(squared_pairs(0.1))),
    "ipo(beta=0.5, per_token=False)": like_grpo(lambda n, p, r: squared(n, p, r, 0.5)),
    "rpo(form=cumulative)": row(beta=0.01, imitation=5e-5),
    "rpo(form=cumulative, beta=0.4, eta=0.3)": row(beta=0.4, imitation=0.12),
}
