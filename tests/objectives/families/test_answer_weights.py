import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives.catalog.noisy_verifiers import BackwardCorrection
from ipsrl.objectives.catalog.sets import BestOfSets, weight_vectors
from ipsrl.objectives.catalog.unlikely_answers import UniformCorrect, Unlikeliness
from tests.objectives.groups import advantages_of, assert_close, rewarded, rollouts_of, shaped, weighed_in_turn


def test_the_mean_of_a_corrected_reward_over_the_errors_of_a_verifier_is_the_reward():
    """1.6 and -0.4: on average 1 where 0.7 of the right answers are accepted, and 0 where 0.2 of the wrong ones are."""
    assert_close(BackwardCorrection(0.2, 0.3)(jnp.array([[1.0, 0.0]]), None), [[1.6, -0.4]])


def test_ranks_go_by_the_average_token_and_ties_share_theirs():
    behaviour = np.log([[0.2, 1, 1], [0.4, 0.4, 1], [0.5, 0.5, 0.5], [0.5, 0.7, 0.7]])
    mask = [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 0, 0]]
    expected = np.array([1, 1 - 0.0625, 2 * (1 - 2.5 * 0.0625), 1 - 2.5 * 0.0625])
    rewards = [1, 1, 2, 1]
    assert_close(shaped(Unlikeliness(), rewards, behaviour=behaviour, mask=mask), expected)
    assert_close(shaped(Unlikeliness(beta=0.0), rewards, behaviour=behaviour, mask=mask), rewards)


def test_unlikely_correct_answers_get_the_larger_share():
    """q = (2/3, 1/3) of two correct answers: weights 1 - tau + tau (2/3, 4/3), whatever their length."""
    behaviour = np.log([[[0.5, 0.5], [0.25, 1.0], [0.9, 1.0]], [[0.5, 0.5], [0.25, 1.0], [0.9, 1.0]]])
    mask = np.array([[[1, 1], [1, 0], [1, 0]]] * 2)
    rollouts = rollouts_of(behaviour, mask, rewards=np.float32([[1, 1, 0], [0, 0, 0]]))
    for tau in (0.2, 1.0):
        weights = UniformCorrect(tau)(jnp.ones((2, 3, 2)), rollouts)[..., 0]
        assert_close(weights, [[1 - tau / 3, 1 + tau / 3, 1], [1, 1, 1]])


def test_unlikely_answers_gain_if_they_are_correct_and_lose_if_they_are_wrong():
    """Answers have two tokens each: log mu is log 1/4 and log 1/16."""
    behaviour = np.log(np.array([[[0.5, 0.5], [0.25, 0.25], [0.5, 0.5], [0.25, 0.25]]]))
    group = rollouts_of(behaviour, rewards=np.float32([[1, 1, 0, 0]]))
    found = advantages_of("differential_smoothing(positive=0.5, negative=0.25)", group)
    assert_close(found, [[1 + np.log(2), 1 + np.log(4), -1 - np.log(2) / 2, -1 - np.log(2)]])


@pytest.mark.parametrize(
    ("bonus", "expected"), [("ucb", [1, 1 / 3**0.5]), ("ucb_con", [0.5, 1 / 3**0.5 - 0.5]), ("ucb_mean", None)]
)
def test_outcomes_of_earlier_batches_count(bonus, expected):
    """In the second batch the prompt's outcome 0 was seen three times and no valid outcome once; outcome 1 is new."""
    batches = [
        rewarded([[1, 1, 1, 1]], outcome_id=[outcomes], prompt_index=[2]) for outcomes in ([0, 0, 0, -1], [1, 0, 0, -1])
    ]
    text = f"outcome_exploration(weight=1.0, bonus={bonus})"
    (found,), state, _ = weighed_in_turn(text, batches, num_prompts=3, num_outcomes=2)
    once, often = expected or (1 - (2 + 2 / 3**0.5) / 4, 1 / 3**0.5 - (2 + 2 / 3**0.5) / 4)
    assert_close(found, [once, often, often, once])
    table = next(part for part in state if not isinstance(part, tuple))
    np.testing.assert_array_equal(table, [[0, 0, 0], [0, 0, 0], [5, 1, 2]])


def test_sets_that_nearly_never_fail_have_advantages():
    """With 700 of 1,100 correct, 500 answers all fail with a probability that no float holds."""
    rewards = np.float32(np.arange(1100) < np.array([[1], [700]]))
    group = rollouts_of(np.zeros((2, 1100, 1)), rewards=rewards)
    few, many = advantages_of("pass_at_k(k=500)", group)
    assert_close(few[:2], np.sqrt(600 / 500) * np.array([1, -1 / 1099]))
    assert not many.any()


def test_sets_beside_the_whole_group_are_refused():
    with pytest.raises(ValueError, match="needs a k below the group's size"):
        BestOfSets(k=None, baseline="other_sets")


def test_weight_vectors_are_a_grid_with_equal_means():
    assert_close(weight_vectors(2, 4), np.array([[1, 7], [3, 5], [5, 3], [7, 1]]) / 8)
    assert_close(weight_vectors(3, 2), np.array([[1, 1, 4], [1, 4, 1], [4, 1, 1]]) / 6)
    assert_close(weight_vectors(1, 9), [[1]])
    assert_close(weight_vectors(3, 1), np.ones((1, 3)) / 3)
    for number, divisions, vectors in ((2, 16, 16), (3, 16, 136), (4, 16, 816)):
        grid = weight_vectors(number, divisions)
        assert grid.shape == np.unique(grid, axis=0).shape == (vectors, number)
        assert_close(grid.sum(axis=1), np.ones(vectors))
        assert_close(grid.mean(axis=0), np.full(number, 1 / number))
    # Of a flat Dirichlet distribution: E[max(w, 1 - w)] = 3/4, and E[w_1^2] = 2 / (M (M + 1)).
    assert weight_vectors(2, 16).max(axis=1).mean() == pytest.approx(0.75, abs=1e-12)
    assert (weight_vectors(3, 400)[:, 0] ** 2).mean() == pytest.approx(1 / 6, rel=0.01)
