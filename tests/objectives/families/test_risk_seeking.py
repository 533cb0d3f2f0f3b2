"""Objectives of the best of several answers, by numbers and identities derived by hand."""

import itertools
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.objectives.advantages.risk_seeking import BestOfSets
from tests.objectives.groups import advantages_of, assert_close, rollouts_of
from tests.objectives.mean_updates import mean_update

LOGITS = jnp.array([0.4, -0.3, 1.1, 0.0])
GRADED = jnp.array([1.0, 0.8, 0.0, 0.3])


def groups(*rewards):
    rewards = np.float32(rewards)
    return rollouts_of(np.zeros((*rewards.shape, 1)), rewards=rewards)


# RS-GRPO


def test_rewards_count_by_their_exponentials():
    """beta = log 2: exp(beta r) is 2, 4, 1, 1 with mean 2."""
    beta = float(np.log(2))
    expected = np.array([[0, 1, -0.5, -0.5]]) / beta
    assert_close(advantages_of(f"rs_grpo(beta={beta})", groups([1, 2, 0, 0])), expected)


def test_risk_seeking_weighs_prompts_if_rewards_are_0_and_1():
    for beta, correct in itertools.product((0.5, 2.0, 30.0), range(5)):
        group, growth = groups([1] * correct + [0] * (4 - correct)), np.expm1(beta)
        weight = growth / (beta * (1 + growth * correct / 4))
        assert_close(advantages_of(f"rs_grpo(beta={beta})", group), weight * advantages_of("dr_grpo", group))


def test_small_rewards_are_not_rounded():
    """Then it is the group's mean that is subtracted."""
    found = advantages_of("rs_grpo", groups([1e-7, 0, 0, 0]))
    np.testing.assert_allclose(found, [[7.5e-8, -2.5e-8, -2.5e-8, -2.5e-8]], rtol=1e-5)


def test_large_exponents_do_not_overflow():
    assert_close(advantages_of("rs_grpo(beta=50.0)", groups([90, 100, 0, -100])), np.array([[-1, 3, -1, -1]]) / 50)


# PKPO and the best answer


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        # One correct answer of four, k = 2: of three others, one in three is correct for a wrong answer.
        ("none", [1 / 2, 1 / 6, 1 / 6, 1 / 6]),
        ("rest_of_set", [1 / 2, 0, 0, 0]),
        ("other_sets", [1 / 2, 1 / 6 - 4 / 9, 1 / 6 - 4 / 9, 1 / 6 - 4 / 9]),
    ],
)
def test_sets_of_two_of_four(baseline, expected):
    assert_close(advantages_of(f"pkpo(baseline={baseline})", groups([0.7, 0, 0, 0])), [expected])


def test_binary_rewards_have_the_closed_form_of_the_paper():
    """r~ = k/n if correct and k/n rho(n-1, c, k-1) if wrong, rho(n, c, k) = 1 - C(n-c, k) / C(n, k)."""
    size = 6
    for k, correct in itertools.product((2, 3, 5), range(size + 1)):
        passing = 1 - comb(max(size - 1 - correct, 0), k - 1) / comb(size - 1, k - 1)
        expected = k / size * np.where(np.arange(size) < correct, 1.0, passing)
        group = groups([1] * correct + [0] * (size - correct))
        assert_close(advantages_of(f"pkpo(k={k}, baseline=none)", group), [expected])


@pytest.mark.parametrize("rewards", [GRADED, jnp.array([1.0, 0.0, 0.0, 1.0])], ids=["graded", "binary"])
@pytest.mark.parametrize("baseline", ["rest_of_set", "other_sets", "none"])
def test_the_mean_update_is_the_gradient_of_the_best_of_k(rewards, baseline):
    """1/G of it, as our loss is a mean over the group where the paper's is a sum."""

    def best_of_three(logits):
        probs = jax.nn.softmax(logits)
        order = jnp.argsort(rewards)
        at_most = jnp.cumsum(probs[order]) ** 3
        return jnp.diff(at_most, prepend=0.0) @ rewards[order]

    update = mean_update(make(f"pkpo(k=3, graded=True, baseline={baseline})"), LOGITS, rewards, 5)
    np.testing.assert_allclose(5 * update, jax.grad(best_of_three)(LOGITS), rtol=1e-4, atol=2e-6)


def test_the_best_answer_gets_its_distance_to_the_second():
    batch = groups([3, 1, 2, 0], [1, 0, 1, 0], [0, 0, 1, 0], [-1, -1, -1, -1])
    distance = np.array([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    assert_close(advantages_of("top_one(standardise=False)", batch), distance)
    assert_close(advantages_of("top_one", batch), distance / np.array([[1.25**0.5], [1], [3**0.5 / 4], [1]]))
    assert_close(advantages_of("pkpo(k=4, graded=True)", batch), distance)


def test_sets_beside_the_whole_group_are_refused():
    with pytest.raises(ValueError, match="needs a k below the group's size"):
        BestOfSets(k=None, baseline="other_sets")
