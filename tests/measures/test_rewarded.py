import jax.numpy as jnp
import numpy as np

from ipsrl.measures import rewarded

# Two best outcomes, one graded, one worthless; reward-proportional probabilities are 0.4, 0.4, 0.2, 0.
REWARDS = np.array([[1.0, 1.0, 0.5, 0.0]])


def test_measures_by_hand():
    probs = jnp.array([[[0.4, 0.4, 0.2, 0.0]], [[0.0, 0.5, 0.0, 0.5]], [[0.0, 0.0, 0.0, 1.0]]])
    expected = {
        "reward": [0.9, 0.5, 0.0],
        "effective_outcomes": [np.exp(-0.8 * np.log(0.4) - 0.2 * np.log(0.2)), 1.0, 0.0],
        "effective_best": [2.0, 1.0, 0.0],
        "survival": [1.0, 0.0, 0.0],
        "tv_to_proportional": [0.0, 0.6, 1.0],
        "tv_to_uniform_best": [0.2, 0.5, 1.0],
        "l1_to_proportional": [0.0, 1.2, 2.0],
        "modes": [2.0, 1.0, 0.0],
    }
    measures = rewarded.measures(probs, REWARDS)
    assert measures.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(measures[name], values, atol=1e-6, err_msg=name)


def test_rewards_are_shares_of_the_best_possible_one():
    probs = jnp.array([[[0.4, 0.4, 0.2, 0.0]]])
    np.testing.assert_allclose(rewarded.measures(probs, 2 * REWARDS)["reward"], [0.9])


def test_measures_are_means_over_prompts():
    measures = rewarded.measures(jnp.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[1.0, 0.0], [1.0, 0.5]]))
    np.testing.assert_allclose(measures["reward"], (1.0 + 0.75) / 2)
    np.testing.assert_allclose(measures["effective_outcomes"], (1.0 + 2.0) / 2)
    np.testing.assert_allclose(measures["survival"], (1.0 + 1.5) / 2)
