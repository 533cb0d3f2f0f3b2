"""Weights that look at the whole batch, token by token, up to loss and gradient, against NumPy's float64.

What a loss makes of given weights is declared with the rows (`token_values.py`). Here each statement gives, from its
paper's formula, what a token is worth and the slope of that by its log-probability; the loss is minus the sum of both
times the token's share of the mean.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from groups import random_rollouts, sizes

from ipsrl.objectives import make

PROMPTS, GROUP, LENGTH = 4, 5, 6


def far_away(seed):
    """Answers of random lengths, rewards 0, 1 and 2, one group of equal rewards, and a policy that has moved a lot."""
    rollouts, scores = random_rollouts(seed, PROMPTS, GROUP, LENGTH)
    rng = np.random.default_rng(seed)
    rewards = rng.integers(0, 3, (PROMPTS, GROUP)).astype(np.float32)
    rewards[0] = 1.0
    moved = rollouts.behaviour_log_probs + rng.normal(0, 0.7, (PROMPTS, GROUP, LENGTH)).astype(np.float32)
    scores = dataclasses.replace(scores, log_probs=jnp.where(rollouts.token_mask, jnp.minimum(moved, -0.02), 0.0))
    return dataclasses.replace(rollouts, rewards=jnp.asarray(rewards)), scores


class Batch:
    """The same in float64, with what many formulas share; 0 outside the mask."""

    def __init__(self, rollouts, scores):
        def array(values):
            return np.where(self.mask > 0, np.array(values, np.float64), 0.0)

        self.mask = np.array(rollouts.token_mask, np.float64)
        self.length = self.mask.sum(-1, keepdims=True)
        self.mu, self.log_probs = array(rollouts.behaviour_log_probs), array(scores.log_probs)
        self.ratio = np.exp(self.log_probs - self.mu)
        reference = array(rollouts.reference_log_probs)
        self.started_above = self.mu - reference
        self.entropy, self.entropy_now = array(rollouts.behaviour_entropy), array(scores.entropy)
        self.rewards = np.array(rollouts.rewards, np.float64)
        self.advantages = self.by_token(standardised(self.rewards))
        self.centred = self.by_token(self.rewards - self.rewards.mean(-1, keepdims=True))
        self.token_mean = self.mask / self.mask.sum()

    def by_token(self, answers):
        return answers[..., None] * np.ones_like(self.mask)

    def white(self, values):
        """(A - mean) / std over tokens."""
        valid = values[self.mask > 0]
        return (values - valid.mean()) / valid.std()


def standardised(rewards):
    std = rewards.std(-1, keepdims=True)
    return np.where(std > 0, (rewards - rewards.mean(-1, keepdims=True)) / np.where(std > 0, std, 1), 0)


def clip(advantages, ratio, low=0.2, high=0.2):
    """PPO's value, and its slope by the logarithm of the ratio."""
    values = np.minimum(ratio * advantages, np.clip(ratio, 1 - low, 1 + high) * advantages)
    cut = ((advantages > 0) & (ratio > 1 + high)) | ((advantages < 0) & (ratio < 1 - low))
    return values, np.where(cut, 0, ratio * advantages)


def returns_to_go(b):
    advantages = np.zeros_like(b.mask)
    for p, g in np.ndindex(PROMPTS, GROUP):
        last, total = int(b.length[p, g, 0]) - 1, 0.0
        for t in range(last, -1, -1):
            total = 0.9 * total + (b.rewards[p, g] if t == last else 0.0) - 0.05 * b.started_above[p, g, t]
            advantages[p, g, t] = total
    return advantages


def reinforce_plus_plus(b):
    return *clip(b.white(returns_to_go(b)), b.ratio, low=0.1, high=0.3), b.token_mean


def dapo(b):
    rewards = b.rewards - np.clip((b.length[..., 0] - 2) / 3, 0, 1)
    return *clip(b.by_token(standardised(rewards)), b.ratio, high=0.28), b.token_mean


def lite_ppo(b):
    return *clip(b.centred / b.rewards.std(), b.ratio, low=0.1, high=0.3), b.token_mean


def forking_tokens(b, fraction=0.3, trl=False):
    entropies = np.sort(b.entropy[b.mask > 0])[::-1]
    tokens = len(entropies)
    highest = np.quantile(entropies, 1 - fraction) if trl else entropies[int(np.ceil(fraction * tokens - 1e-9)) - 1]
    kept = (b.entropy >= highest) * b.mask
    return *clip(b.advantages, b.ratio, low=0.1, high=0.28), kept / (tokens if trl else kept.sum())


def aer(b):
    values, slopes = clip(b.advantages, b.ratio)
    bonus = 0.02 * np.maximum(0, 1 - (b.rewards > 0.5).mean(-1) / 0.9)[:, None, None]
    return values + bonus * b.entropy_now, slopes, b.token_mean, bonus


def entrocraft(b):
    entropy = (b.entropy * b.token_mean).sum()
    kept_sign = 1.0 * (entropy > 0.9) - 1.0 * (entropy < 0.8)
    return *clip(np.where(kept_sign * b.advantages >= 0, b.advantages, 0), b.ratio), b.token_mean


EXPECTED = {
    "reinforce_plus_plus(gamma=0.9, kl=0.05, clip_low=0.1, clip_high=0.3)": reinforce_plus_plus,
    "dapo(overlong_limit=5, overlong_cache=3)": dapo,
    "lite_ppo(clip_low=0.1, clip_high=0.3)": lite_ppo,
    "forking_tokens(fraction=0.3, clip_low=0.1)": forking_tokens,
    "forking_tokens(fraction=0.3, threshold=quantile, denominator=all, clip_low=0.1)": lambda b: forking_tokens(
        b, trl=True
    ),
    "aer(alpha0=0.02, weight=linear, rho=0.9, threshold=0.5)": aer,
    "entrocraft(low_start=0.8, high_start=0.9)": entrocraft,
}


@pytest.mark.parametrize("text", EXPECTED)
def test_loss_and_gradient_far_from_the_behaviour_policy(text):
    rollouts, scores = far_away(0)
    objective = make(text)

    def loss(scores):
        output = objective(scores, rollouts, sizes(PROMPTS))
        return output.loss_sum / output.count

    value, gradient = jax.jit(jax.value_and_grad(loss))(scores)
    batch = Batch(rollouts, scores)
    values, slopes, share, *bonus = EXPECTED[text](batch)
    np.testing.assert_allclose(value, -(values * share).sum(), atol=1e-5)
    scale = np.abs(slopes * share).max()
    assert scale > 1e-3
    np.testing.assert_allclose(gradient.log_probs, -slopes * share, atol=1e-5 * scale)
    np.testing.assert_allclose(gradient.entropy, -(bonus[0] if bonus else 0.0) * share, atol=1e-6)
