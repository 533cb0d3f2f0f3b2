"""Losses and gradients far from the behaviour policy, against NumPy's float64: is every argument wired to its part?

Each statement gives, from its paper's formula, what a token is worth and the slope of that by its log-probability; the
loss is minus the sum of both times the token's share of the mean. Only with ratios far from 1 do the rules differ that
bound them, and the two sides of each rule.
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
        self.above_reference, self.started_above = self.log_probs - reference, self.mu - reference
        self.entropy, self.entropy_now = array(rollouts.behaviour_entropy), array(scores.entropy)
        self.rewards = np.array(rollouts.rewards, np.float64)
        self.truncated = np.array(rollouts.truncated)[..., None]
        self.advantages = self.by_token(standardised(self.rewards))
        self.centred = self.by_token(self.rewards - self.rewards.mean(-1, keepdims=True))
        self.token_mean = self.mask / self.mask.sum()
        self.sequence_mean = self.mask / self.length / (PROMPTS * GROUP)
        self.constant_length = self.mask / LENGTH / (PROMPTS * GROUP)

    def by_token(self, answers):
        return answers[..., None] * np.ones_like(self.mask)

    def centred_tokens(self, values):
        return (values - (values * self.mask).sum() / self.mask.sum()) * self.mask

    def covariance(self):
        return self.centred_tokens(self.mu) * self.centred_tokens(self.advantages)

    def white(self, values):
        """(A - mean) / std over tokens."""
        valid = values[self.mask > 0]
        return (values - valid.mean()) / valid.std()


def standardised(rewards, ddof=0):
    std = rewards.std(-1, keepdims=True, ddof=ddof)
    return np.where(std > 0, (rewards - rewards.mean(-1, keepdims=True)) / np.where(std > 0, std, 1), 0)


def clip(advantages, ratio, low=0.2, high=0.2, dual=1e9):
    """PPO's value, and its slope by the logarithm of the ratio."""
    values = np.minimum(ratio * advantages, np.clip(ratio, 1 - low, 1 + high) * advantages)
    cut = ((advantages > 0) & (ratio > 1 + high)) | ((advantages < 0) & ((ratio < 1 - low) | (ratio > dual)))
    floor = np.where(advantages < 0, dual * advantages, -np.inf)
    return np.maximum(values, floor), np.where(cut, 0, ratio * advantages)


def k3(distance):
    return np.exp(-distance) + distance - 1


def grpo_with_k3(b):
    values, slopes = clip(b.advantages, b.ratio)
    return values - 0.04 * k3(b.above_reference), slopes - 0.04 * (1 - np.exp(-b.above_reference)), b.sequence_mean


def grpo_with_corrected_k3(b):
    values, slopes = clip(b.advantages, b.ratio)
    values = values - 0.04 * b.ratio * k3(b.above_reference)
    return values, slopes - 0.04 * b.ratio * b.above_reference, b.sequence_mean


def grpo_with_all_in_the_reward(b):
    rewards = b.rewards - 0.4 * k3(b.started_above).sum(-1)
    return *clip(b.by_token(standardised(rewards, ddof=1)), b.ratio, dual=1.5), b.sequence_mean


def left_out(rewards):
    return np.stack([rewards[:, i] - np.delete(rewards, i, 1).mean(1) for i in range(GROUP)], axis=1)[..., None]


def rloo(b):
    """The answer is one action: the slope is that of the sum, not of the mean, over its tokens."""
    advantages = left_out(b.rewards - 0.03 * b.started_above.sum(-1))
    ratio = b.ratio.prod(-1, keepdims=True)  # 1 outside the mask
    values, slopes = clip(advantages, ratio, low=0.3, high=0.1)
    return values * b.mask, slopes * b.length, b.sequence_mean


def rloo_by_token(b):
    values, slopes = clip(b.by_token(left_out(b.rewards)[..., 0]), b.ratio, low=0.3, high=0.1)
    return values - 0.03 * b.above_reference**2 / 2, slopes - 0.03 * b.above_reference, b.sequence_mean


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


def dapo_filtered(b):
    left = b.mask * ~b.truncated
    return *clip(b.advantages, b.ratio, high=0.28), left / left.sum()


def dapo_filtered_by_answer(b):
    left = b.mask * ~b.truncated
    return *clip(b.advantages, b.ratio, high=0.28), left / b.length / left.any(-1).sum()


def lite_ppo(b):
    return *clip(b.centred / b.rewards.std(), b.ratio, low=0.1, high=0.3), b.token_mean


def advantage_reweighting(b):
    return *clip(b.advantages * (0.2 * np.exp(b.mu) + 0.8), b.ratio, high=0.24), b.sequence_mean


def bapo(b):
    """The published loop: one limit after the other, until the positive tokens have their share."""
    weight = np.abs(b.advantages) * b.mask
    lows, highs = 0.6 + 0.05 * np.arange(5), 1.2 + 0.05 * np.arange(17)
    for low, high in [(low, highs[0]) for low in lows] + [(lows[-1], high) for high in highs[1:]]:
        positive = (weight * np.minimum(b.ratio, high))[b.advantages > 0].sum()
        negative = (weight * np.maximum(b.ratio, low))[b.advantages < 0].sum()
        if positive >= negative:
            break
    return *clip(b.advantages, b.ratio, low=1 - low, high=high - 1, dual=1.5), b.token_mean


def dppo(b, kl=False):
    mu, pi = np.exp(b.mu), np.exp(b.log_probs)
    if kl:
        divergence = mu * np.log(mu / pi) + (1 - mu) * np.log((1 - mu + 1e-8) / (1 - pi + 1e-8))
    else:
        divergence = np.abs(mu - pi)
    leaves = ((b.centred > 0) & (b.ratio > 1)) | ((b.centred < 0) & (b.ratio < 1))
    weight = np.where(leaves & (divergence > (0.05 if kl else 0.15)), 0, np.minimum(b.ratio, 1.4))
    return weight * b.centred, weight * b.centred, b.constant_length


def kl_cov(b):
    covariance = b.covariance()
    number = max(1, int(0.1 * b.mask.sum()))
    held = (covariance >= np.sort(covariance[b.mask > 0])[-number]) * b.mask
    moved = b.log_probs - b.mu
    plain = b.ratio * b.advantages
    return plain - 0.7 * held * np.abs(moved), plain - 0.7 * held * np.sign(moved), b.token_mean


def clip_cov(b):
    covariance = b.covariance()
    dropped = (covariance > 0.2) & (covariance < 0.9)
    return *clip(np.where(dropped, 0, b.advantages), b.ratio, low=0.1, high=0.3), b.token_mean


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
    "grpo(kl=0.04)": grpo_with_k3,
    "grpo(kl=0.04, kl_estimator=corrected_k3)": grpo_with_corrected_k3,
    "grpo(kl=0.4, kl_estimator=k3, kl_in=reward, unbiased_std=True, dual_clip=1.5)": grpo_with_all_in_the_reward,
    "rloo(kl=0.03, clip_low=0.3, clip_high=0.1)": rloo,
    "rloo(ratio=token, kl=0.03, kl_in=loss, clip_low=0.3, clip_high=0.1)": rloo_by_token,
    "reinforce_plus_plus(gamma=0.9, kl=0.05, clip_low=0.1, clip_high=0.3)": reinforce_plus_plus,
    "dapo(overlong_limit=5, overlong_cache=3)": dapo,
    "dapo(overlong_filter=True, overlong_weight=0.0)": dapo_filtered,
    "dapo(overlong_filter=True, overlong_weight=0.0, aggregation=sequence_mean)": dapo_filtered_by_answer,
    "lite_ppo(clip_low=0.1, clip_high=0.3)": lite_ppo,
    "ar_lopti(lopti=False)": advantage_reweighting,
    "bapo(rule=released, dual_clip=1.5)": bapo,
    "dppo(ratio_cap=1.4)": dppo,
    "dppo(divergence=binary_kl, ratio_cap=1.4)": lambda b: dppo(b, kl=True),
    "kl_cov(fraction=0.1, coefficient=0.7)": kl_cov,
    "clip_cov(fraction=1.0, lowest=0.2, highest=0.9, clip_low=0.1, clip_high=0.3)": clip_cov,
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
