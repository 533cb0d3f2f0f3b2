import numpy as np

from tests.objectives.rows import Row, like_grpo, over_std
from tests.oracles.token_values import clipped, sequence_sum, tapered, tapered_answer, token_mean


def signed(rewards, positive, negative):
    return positive * rewards - negative * (1 - rewards)


def beside_best(counts, rewards, best=1.0, unbiased=False):
    group = np.append(np.repeat(rewards, counts), best)
    std = group.std(ddof=unbiased)
    return over_std(rewards - group.mean(), std, group)


def above_quantile(counts, rewards, quantile=0.4, unbiased=False):
    group = np.sort(np.repeat(rewards, counts))
    std = group.std(ddof=unbiased)
    reached = np.arange(1, len(group) + 1) / len(group) >= quantile - 1e-9
    return over_std(rewards - group[reached][0], std, group)


ROWS = {
    "w_reinforce": Row(False, None, "never", lambda n, p, r: signed(r, 0.1, 1.0), tokens=token_mean(clipped(0.2, 0.2))),
    "w_reinforce(positive=0.0, negative=0.7)": Row(False, None, "never", lambda n, p, r: signed(r, 0.0, 0.7)),
    "w_reinforce(positive=1.0, negative=0.0)": Row(False, 1, "no reward", lambda n, p, r: r),
    "ngrpo": Row(False, None, "never", lambda n, p, r: beside_best(n, r), tokens=token_mean(clipped(0.16, 0.24))),
    "ngrpo(best=2.0, unbiased_std=True)": Row(False, None, "never", lambda n, p, r: beside_best(n, r, 2.0, True)),
    "topr": Row(False, None, "never", lambda n, p, r: signed(r, 1.0, 1.0), tokens=sequence_sum(tapered)),
    "topr(positive=0.4, negative=0.7, of=answer)": Row(
        False, None, "never", lambda n, p, r: signed(r, 0.4, 0.7), tokens=sequence_sum(tapered_answer)
    ),
    "qae": like_grpo(lambda n, p, r: above_quantile(n, r), tokens=token_mean(clipped(0.2, 0.28))),
    "qae(quantile=0.8, unbiased_std=True)": like_grpo(lambda n, p, r: above_quantile(n, r, 0.8, True)),
}
