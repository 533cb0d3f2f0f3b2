import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.objectives.catalog.regularised import (
    MasteredDivergence,
    ModeAnchor,
    ReferenceDivergence,
    TsallisEntropy,
    mastered_groups,
)
from tests.objectives.groups import (
    advantages_of,
    assert_close,
    by_log_probs,
    mean_update,
    rewarded,
    rollouts_of,
    scores_of,
)


def test_bonuses_of_very_unlikely_answers_are_finite():
    """Relative to that of the certain first answer."""
    rollouts = rollouts_of(np.array([[[0.0] * 400, [-2.0] * 400]]))
    for q, bonus in ((0.5, 0.5 / 0.5 * (np.exp(20.0) - 1)), (2.0, 2.0), (1.0, 800.0)):
        assert_close(TsallisEntropy(1.0, q)(rollouts.rewards, rollouts), [[1.0, 1 + bonus]])


@pytest.mark.parametrize("text", ["tsallis(q=0.5)", "tsallis(q=1.0)", "f_divergence(divergence=forward_kl, beta=1e6)"])
def test_rewards_are_not_lost_behind_what_all_answers_of_a_group_have(text):
    """Log-probabilities of -41 beside -21 of the reference, and answers without tokens, which have no part in it."""
    behaviour, mask = np.full((1, 4, 1), -41.0), np.array([[[1], [1], [0], [0]]])
    reference = np.full((1, 4, 1), -21.0, np.float32)
    rollouts = rollouts_of(behaviour, mask, rewards=np.float32([[1, 0, 0, 0]]), reference_log_probs=reference)
    assert_close(advantages_of(text, rollouts), [[0.75, -0.25, -0.25, -0.25]])


def test_a_divergence_looks_at_whole_answers():
    """log u = 0.5 + 0.25 of two tokens, beside 1; what lies outside the mask is not even a number."""
    behaviour, reference = [[[-1.0, -1.0, np.nan], [-1.0, 0.0, 0.0]]], [[[-1.5, -1.25, 7.0], [-2.0, 0.0, 0.0]]]
    rollouts = rollouts_of(behaviour, [[[1, 1, 0], [1, 0, 0]]], reference_log_probs=np.float32(reference))
    assert_close(ReferenceDivergence("reverse_kl", 2.0)(rollouts.rewards, rollouts), [[1 + 2 * 0.25, 1]])
    more = 2 * (np.exp(-0.75) - np.exp(-1))
    assert_close(ReferenceDivergence("forward_kl", 2.0)(rollouts.rewards, rollouts), [[1 + more, 1]])


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.75])
def test_it_rests_at_the_reference_times_the_rewards_and_returns_at_a_rate_of_one_minus_alpha(alpha):
    reference, rewards = jnp.log(jnp.array([0.3, 0.6, 0.1])), jnp.array([1.0, 0.6, 0.3])

    def update(alpha, moved):
        logits = reference + jnp.log(rewards) + moved * jnp.array([1.0, -1.0, 0.5])
        return mean_update(make(f"alpha_dpg(alpha={alpha})"), logits, rewards, 4, reference=reference)

    assert np.abs(update(alpha, 0.0)).max() < 1e-6
    slowest = update(0.9, 0.01) / 0.1
    np.testing.assert_allclose(update(alpha, 0.01) / (1 - alpha), slowest, rtol=0.02, atol=1e-6)


@pytest.mark.parametrize(
    ("threshold", "rewards", "expected"),
    [
        (None, [1, 1, 0, 0.5], [1, 2, 0, 0.5]),
        (0.5, [1, 1, 0, 0.5], [0.75, 1.75, 0, 0.5]),
        (2.0, [1, 1, 0, 0.5], [1, 1, 0, 0.5]),
        (-1.0, [-0.5, -2, -1, -3], [-0.5, -2, 0, -3]),
        (None, [0, 0, 0, 0], [0, 0, 0, 0]),
        (None, [-1, -1, -2, -1], [-1, -1, -2, -1]),
    ],
)
def test_good_answers_are_anchored_at_the_one_the_reference_likes_best(threshold, rewards, expected):
    """MARA, beta = 1/2 and log pi_ref = -1, -3, -2, -1/2: sums over tokens, so that length counts."""
    reference = np.float32([[[-0.5, -0.5], [-2.5, -0.5], [-1.0, -1.0], [-0.5, 3.0]]])
    mask = [[[1, 1], [1, 1], [1, 1], [1, 0]]]
    rewards = np.float32([rewards])
    rollouts = rollouts_of(np.zeros((1, 4, 2)), mask, rewards=rewards, reference_log_probs=reference)
    assert_close(ModeAnchor(0.5, threshold)(jnp.asarray(rewards), rollouts), [expected])


def test_an_answer_without_tokens_is_no_anchor():
    """Though its reward of 0 is above the threshold, and its probability 1."""
    reference = np.full((1, 3, 1), -2.0, np.float32)
    rollouts = rollouts_of(np.zeros((1, 3, 1)), [[[1], [1], [0]]], reference_log_probs=reference)
    assert_close(ModeAnchor(0.5, -1.0)(jnp.array([[-0.5, -2.0, 0.0]]), rollouts), [[-0.5, -2.0, 0.0]])


@pytest.mark.parametrize(
    ("divergence", "values", "gradient"),
    [
        # The policy has u = 2, 1/2 and 1 times the reference's probability; the samples weigh 1/2, 3 (of 4) and 1.
        ("forward_kl", [-0.5 * np.log(2), 3 * np.log(2), 0], [-0.5, -3, -1]),
        (
            "jensen_shannon",
            [0.5 * (2 * np.log(2) - 3 * np.log(1.5)), 3 * (-0.5 * np.log(2) - 1.5 * np.log(0.75)), 0],
            [np.log(4 / 3), 1.5 * np.log(2 / 3), 0],
        ),
    ],
)
def test_divergence_on_mastered_groups(divergence, values, gradient):
    reference = np.log(np.float32([[[0.2, 0.4, 0.1]]]))
    behaviour = np.log(np.float32([[[0.4, 0.1, 0.1]]]))
    policy = np.log([[[0.4, 0.2, 0.1]]])
    rollouts = rollouts_of(behaviour, reference_log_probs=reference)
    costs, slope, metrics = by_log_probs(MasteredDivergence(0.1, divergence, ratio_limit=3.0), policy, rollouts)
    assert_close(costs[0, 0], values)
    assert_close(slope[0, 0], gradient)
    assert_close(metrics["mastered_divergence"], (sum(values), 3))


def test_mastered_groups_are_counted():
    rewards = np.float32([[1, 0.5, 1, 2], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    rollouts = rewarded(rewards, reference_log_probs=np.zeros((4, 4, 1)))
    scores = scores_of(rollouts.behaviour_log_probs)
    for share, mastered in ((1.0, 1), (0.75, 2), (0.1, 3)):
        assert_close(make(f"dph_rl(mastered_at={share})")(scores, rollouts).metrics["mastered_groups"], (mastered, 4))


@pytest.mark.parametrize(("share", "size", "needed"), [(0.55, 20, 11), (0.7, 10, 7), (0.3, 10, 3), (0.01, 4, 1)])
def test_a_share_is_reached_without_rounding_up(share, size, needed):
    rewards = jnp.float32(np.arange(size) < np.array([[needed - 1], [needed]]))
    assert mastered_groups(rewards > 0, share).tolist() == [False, True]
