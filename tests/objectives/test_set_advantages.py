"""Advantages of sets by brute force over all sets, and the weights of MaxRL by enumeration."""

import itertools

import numpy as np
import pytest
from bandit_means import advantages_of, mean_push
from groups import assert_close, rollouts_of


def one_group(rewards, outcomes=None):
    rewards = np.asarray([rewards], np.float32)
    ids = np.zeros(rewards.shape, int) if outcomes is None else np.asarray([outcomes])
    return rollouts_of(np.zeros((*rewards.shape, 1)), rewards=rewards, outcome_id=ids)


def by_brute_force(score, group, size, deviation=False):
    """Mean score of the sets that hold a sample, less that of all sets, over the standard deviation of all sets."""
    sets = list(itertools.combinations(range(group), size))
    scores = np.array([score(list(members)) for members in sets], np.float64)
    held = np.array([[sample in members for members in sets] for sample in range(group)])
    advantages = (held * scores).sum(axis=-1) / held.sum(axis=-1) - scores.mean()
    if not deviation:
        return advantages
    return advantages / scores.std() if scores.std() > 0 else 0 * advantages


# Pass@k


def test_pass_at_k_by_hand():
    """N = 4, k = 2, c = 1: rho = 1/2, s = 1/2; A = 1 for the correct answer, (1/2 - 2/3) / (1/2) for the others."""
    assert_close(advantages_of("pass_at_k(k=2)", one_group([0, 0.5, 0, 0])), [[-1 / 3, 1, -1 / 3, -1 / 3]])


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_pass_at_k_is_the_mean_over_all_sets(k):
    for correct in range(7):
        rewards = np.arange(6) < correct
        expected = by_brute_force(lambda members, r=rewards: r[members].any(), 6, k, deviation=True)
        actual = advantages_of(f"pass_at_k(k={k})", one_group(rewards))
        assert_close(actual, expected[None])
        assert actual.any() == (0 < correct <= 6 - k)


def test_pass_at_1_is_grpo():
    group = one_group([1, 0, 0, 1, 1])
    assert_close(advantages_of("pass_at_k(k=1)", group), advantages_of("grpo", group))


# Polychromic


def test_polychromic_by_hand():
    """Pairs score (1/2)(1/2), 1 * 1 and (1/2) * 1: means 5/8, 3/8, 3/4 of those that hold a sample, 7/12 of all."""
    actual = advantages_of("polychromic", one_group([1, 0, 1], [0, 0, 1]))
    assert_close(actual, np.array([[5 / 8, 3 / 8, 3 / 4]]) - 7 / 12)


@pytest.mark.parametrize("size", [2, 3, 4, 6])
def test_polychromic_is_the_mean_over_all_sets(size):
    rng = np.random.default_rng(size)
    for outcomes in ([0, 0, 0, 0, 0, 1, -1], [0, 1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 1, -1, -1], [2] * 7):
        rewards, ids = rng.uniform(-1, 2, 7), np.array(outcomes)

        def score(members, rewards=rewards, ids=ids):
            return rewards[members].mean() * len(set(ids[members])) / len(members)

        actual = advantages_of(f"polychromic(set_size={size})", one_group(rewards, outcomes))
        assert_close(actual, by_brute_force(score, 7, size)[None])


# MaxRL


def test_maxrl_by_hand():
    assert_close(advantages_of("maxrl", one_group([1, 0, 0, 0])), [[3, -1, -1, -1]])
    assert_close(advantages_of("maxrl(centred=False)", one_group([1, 0, 0, 0])), [[4, 0, 0, 0]])
    assert_close(advantages_of("maxrl", one_group([2, 1, 1, 0])), [[1, 0, 0, -1]])


@pytest.mark.parametrize("rewards", [[0, 0, 0], [-1, 0.5, 0.5], [-1, 0, 0.5]])
@pytest.mark.parametrize("text", ["maxrl", "maxrl(centred=False)"])
def test_maxrl_is_silent_where_the_mean_is_not_positive(text, rewards):
    assert not advantages_of(text, one_group(rewards)).any()


@pytest.mark.parametrize("group", [2, 3, 5, 8])
def test_the_weight_of_maxrl(group):
    """Mean update w p (1 - p), p the chance of success: w = (1 - (1 - p)^G) / p; a baseline costs one sample."""
    for p in (0.04, 0.3, 0.9):
        for text, samples in (("maxrl(centred=False)", group), ("maxrl", group - 1)):
            weight = (1 - (1 - p) ** samples) / p
            push = mean_push(text, [p, 1 - p], (1.0, 0.0), group)
            np.testing.assert_allclose(push, weight * p * (1 - p) * np.array([1, -1]), rtol=1e-5, atol=1e-6)
            assert weight == pytest.approx(sum((1 - p) ** (k - 1) for k in range(1, samples + 1)))


def test_uncentred_maxrl_is_inverse_probability_scaling_of_one_correct_outcome():
    """r / mean is 1 / phat where one outcome alone earns 1."""
    group = one_group([1, 0, 1, 0, 0], [3, 1, 3, 2, 1])
    assert_close(advantages_of("maxrl(centred=False)", group), advantages_of("ips_reinforce", group))
