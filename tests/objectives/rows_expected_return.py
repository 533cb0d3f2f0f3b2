import numpy as np

from tests.objectives.rows import Row, like_dr_grpo, like_grpo, never_silent, standardised
from tests.oracles.token_values import (
    PPO,
    clipped,
    clipped_sequence,
    constant_length,
    overlong,
    policy_gradient,
    sequence_mean,
    sequence_sum,
    token_mean,
)


def k3_gradient(probs):
    """1 - exp(-d), d = log p - log of the uniform reference."""
    return 1 - 1 / (probs * len(probs))


def entropy_gradient(probs):
    """The gradient of the entropy by the logits, `[K]`."""
    surprise = -np.log(probs)
    return probs * (surprise - probs @ surprise)


def k3(probs):
    """exp(-d) + d - 1, d = log p - log of the uniform reference."""
    return 1 / (probs * len(probs)) + np.log(probs * len(probs)) - 1


def left_out(counts, probs, rewards):
    """A sample's reward minus the mean of the others in its group."""
    others = ((counts * rewards).sum() - rewards) / (counts.sum() - 1)
    return rewards - others


ROWS = {
    "reinforce": Row(False, 1, "no reward", lambda n, p, r: r, tokens=sequence_sum(policy_gradient)),
    "grpo": like_grpo(tokens=PPO),
    "grpo(kl=0.04, entropy=0.01, unbiased_std=True)": like_grpo(
        lambda n, p, r: standardised(n, r, unbiased=True) - 0.04 * k3_gradient(p),
        more=lambda p, r: 0.01 * entropy_gradient(p),
    ),
    "grpo(kl=k2(0.04))": like_grpo(lambda n, p, r: standardised(n, r) - 0.04 * np.log(p * len(p))),
    # k1 in the loss does nothing on average.
    "grpo(kl=k1(0.04))": like_grpo(),
    "grpo(kl=corrected_k3(0.04))": like_grpo(lambda n, p, r: standardised(n, r) - 0.04 * np.log(p * len(p))),
    "grpo(kl=k2(0.04, target=0.5))": like_grpo(lambda n, p, r: standardised(n, r) - 0.04 * np.log(p * len(p))),
    # Taken from the reward, the divergence tells apart answers that are equally good.
    "grpo(kl=k3(0.3, place=reward))": never_silent(lambda n, p, r: standardised(n, r - 0.3 * k3(p))),
    "grpo(kl=k2(0.3, target=0.5, place=reward))": never_silent(
        lambda n, p, r: standardised(n, r - 0.15 * np.log(p * len(p)) ** 2)
    ),
    "grpo(dual_clip=3.0)": like_grpo(),
    # Sampler and trainer agree in these tests of the mean update: then a correction changes nothing.
    "grpo(correction=truncated(1.2))": like_grpo(),
    "grpo(correction=sequence_mask(0.1))": like_grpo(),
    "dr_grpo": like_dr_grpo(tokens=constant_length(clipped(0.2, 0.2))),
    "rloo": like_dr_grpo(left_out, tokens=sequence_mean(clipped_sequence(0.2, 0.2, mean=False))),
    "rloo(ratio=token, kl=k2(0.05, place=loss))": like_dr_grpo(
        lambda n, p, r: left_out(n, p, r) - 0.05 * np.log(p * len(p))
    ),
    "rloo(kl=0.05)": never_silent(lambda n, p, r: left_out(n, p, r - 0.05 * np.log(p * len(p)))),
    # The random answers differ in length, those of the bandit do not.
    "dapo": never_silent(
        lambda n, p, r: standardised(n, r), reads_width=True, tokens=token_mean(clipped(0.2, 0.28)), lengths=overlong
    ),
    "dapo(overlong=paper(limit=3, cache=2), overlong_filter=True)": never_silent(lambda n, p, r: standardised(n, r)),
    "dapo(overlong=0.0)": like_grpo(),
}
