import numpy as np

from tests.objectives.rows import Row, centred, standardised
from tests.oracles.token_values import PPO


def unlikely(counts, probs, rewards, beta=0.25):
    rank = np.array([counts[probs < p].sum() + (n - 1) / 2 for n, p in zip(counts, probs, strict=True)])
    return rewards * (1 - beta * rank / counts.sum())


def uniform_correct(counts, probs, rewards, tau=0.2):
    correct = counts * (rewards > 0)
    inverse = 1 / probs / max((correct / probs).sum(), 1e-9)
    return np.where(rewards > 0, 1 - tau + tau * correct.sum() * inverse, 1.0)


def smoothing(probs, rewards, positive=0.1, negative=0.1):
    return np.where(rewards > 0, -positive, negative) * np.log(probs)


ROWS = {
    "unlikeliness": Row(
        False,
        0,
        "no reward",
        lambda n, p, r: standardised(n, unlikely(n, p, r)),
        tokens=PPO,
        lengths="ranks answers by their probabilities: see test_answer_weights.py",
    ),
    "unlikeliness(beta=0.7, standardise=False)": Row(
        False, 1, "no reward", lambda n, p, r: centred(n, unlikely(n, p, r, 0.7))
    ),
    "ucpo": Row(
        False,
        0,
        "equal rewards",
        lambda n, p, r: standardised(n, r) * uniform_correct(n, p, r),
        tokens=PPO,
        lengths="weighs answers by their probabilities: see test_answer_weights.py",
    ),
    "ucpo(tau=1.0, standardise=False)": Row(
        False, 1, "equal rewards", lambda n, p, r: centred(n, r) * uniform_correct(n, p, r, 1.0)
    ),
    "differential_smoothing": Row(
        False,
        0,
        "never",
        lambda n, p, r: standardised(n, r) + smoothing(p, r),
        tokens=PPO,
        lengths="takes the probabilities of whole answers: see test_answer_weights.py",
    ),
    "differential_smoothing(positive=0.3, negative=0.0, standardise=False)": Row(
        False, None, "no reward", lambda n, p, r: centred(n, r) + smoothing(p, r, 0.3, 0.0)
    ),
}
