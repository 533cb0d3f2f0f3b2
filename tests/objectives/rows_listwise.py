import numpy as np

from tests.objectives.rows import centred, like_dr_grpo, like_grpo, standardised
from tests.oracles.token_values import BEHAVIOUR, PPO, sequence_mean


def of_samples(counts, weights):
    """Weights of outcomes, normalised over the samples of a group."""
    return weights / (counts @ weights)


def tilt(counts, values):
    """exp of the values, up to a factor: 1 at the largest of the group."""
    return np.exp(np.minimum(values - values[counts > 0].max(), 0.0))


def matching(counts, probs, rewards, temperature=0.1):
    """The derivative of -sum (q - w)^2 by the log-probability of a sample, times the size of the group."""
    found, wanted = of_samples(counts, probs), of_samples(counts, tilt(counts, rewards / temperature))
    excess = found - wanted
    return -2 * counts.sum() * found * (excess - (counts * found) @ excess)


def listwise(counts, probs, advantages, temperature, forward):
    found = of_samples(counts, probs)
    if forward:
        return counts.sum() * (of_samples(counts, probs * tilt(counts, advantages / temperature)) - found)
    return counts.sum() * found * (advantages - (counts * found) @ advantages) / temperature


def softmax(values):
    values = np.exp(values - values.max(axis=-1, keepdims=True))
    return values / values.sum(axis=-1, keepdims=True)


def tilted(temperature):
    def values(log_ratio, advantages, mask):
        total, length = np.where(mask, log_ratio, 0.0).sum(axis=-1), mask.sum(axis=-1)
        behaviour = length * np.log(BEHAVIOUR)
        tilt = np.where(mask, advantages, 0.0).sum(axis=-1) / length / temperature
        found, wanted = softmax(behaviour + total), softmax(behaviour + tilt)
        return total.shape[-1] * (wanted * np.log(found / wanted))[..., None] + 0 * log_ratio

    return values


ROWS = {
    # The penalty off-policy: test_listwise.py.
    "dmpo": like_grpo(lambda n, p, r: standardised(n, r) + matching(n, p, r), tokens=PPO),
    "dmpo(coefficient=0.3, temperature=0.5, standardise=False)": like_dr_grpo(
        lambda n, p, r: centred(n, r) + 0.3 * matching(n, p, r, 0.5)
    ),
    "lpo": like_grpo(lambda n, p, r: listwise(n, p, standardised(n, r), 1.0, True), tokens=sequence_mean(tilted(1.0))),
    "lpo(temperature=0.5, divergence=reverse_kl, standardise=False)": like_dr_grpo(
        lambda n, p, r: listwise(n, p, centred(n, r), 0.5, False)
    ),
}
