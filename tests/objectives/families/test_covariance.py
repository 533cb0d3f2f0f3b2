import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives.catalog.covariance import ROUNDING, DropHighCovariance, HighCovarianceDistance
from tests.objectives.groups import assert_close, by_log_probs, rollouts_of

LOG_PROBS, ADVANTAGES = [-0.05, -0.1, -3, -1.2, -0.02], [1.0, 1, 1, -1, -1]


def five_tokens(**fields):
    """The five tokens as answers of two groups; the sixth token is padding."""
    behaviour = np.array([*LOG_PROBS, 50.0]).reshape(2, 1, 3)
    mask = np.arange(6).reshape(2, 1, 3) < 5
    return rollouts_of(behaviour, mask, keys=jax.random.split(jax.random.key(0), 2), **fields), jnp.array(
        [*ADVANTAGES, -70.0]
    ).reshape(2, 1, 3)


@pytest.mark.parametrize(
    ("lowest", "highest", "fraction", "candidates", "dropped"),
    [
        (0.3, 5.0, 2e-4, {0, 1, 3}, 1),
        (0.3, 5.0, 0.4, {0, 1, 3}, 2),
        (0.3, 5.0, 1.0, {0, 1, 3}, 3),
        (0.3, 0.65, 0.8, {1, 3}, 2),
        (0.65, 5.0, 2e-4, {0}, 1),
        (1.0, 5.0, 0.5, set(), 0),
    ],
)
def test_candidates_are_drawn_without_replacement(lowest, highest, fraction, candidates, dropped):
    rollouts, advantages = five_tokens()
    part = DropHighCovariance(fraction, lowest, highest)
    kept = np.asarray(part(advantages, rollouts)).ravel()[:5]
    lost = set(np.flatnonzero(kept == 0))
    assert len(lost) == dropped
    assert lost <= candidates
    assert_close(np.delete(kept, list(lost)), np.delete(ADVANTAGES, list(lost)))


def test_every_candidate_is_drawn_equally_often():
    rollouts, advantages = five_tokens()
    part = DropHighCovariance(lowest=0.3)

    def lost(key):
        keyed = jax.tree.map(lambda leaf: leaf, rollouts)
        object.__setattr__(keyed, "keys", jax.random.split(key, 2))
        return part(advantages, keyed).ravel()[:5] == 0

    share = jax.vmap(lost)(jax.random.split(jax.random.key(1), 3000)).mean(axis=0)
    np.testing.assert_allclose(share, [1 / 3, 1 / 3, 0, 1 / 3, 0], atol=0.035)  # four standard errors


@pytest.mark.parametrize(
    ("fraction", "chosen"),
    [(2e-3, [1, 0, 0, 0, 0]), (0.39, [1, 0, 0, 0, 0]), (0.4, [1, 1, 0, 0, 0]), (1.0, [1, 1, 0, 1, 0])],
)
def test_tokens_of_highest_covariance_are_held(fraction, chosen):
    """Only tokens of positive covariance are held: the third and fifth never are."""
    rollouts, advantages = five_tokens()
    coefficients, state = HighCovarianceDistance(0.5, fraction).update_state(rollouts, advantages, ())
    assert state == ()
    assert_close(coefficients.ravel()[:5], 0.5 * np.array(chosen))


def test_a_batch_without_information_is_not_held():
    rollouts, _ = five_tokens()
    for advantages in (jnp.zeros((2, 1, 3)), jnp.full((2, 1, 3), 0.5)):
        coefficients, _ = HighCovarianceDistance().update_state(rollouts, advantages, ())
        assert not coefficients.any()


def test_distance_has_no_gradient_where_nothing_moved():
    rollouts = rollouts_of(np.full((1, 1, 4), -1.0))
    moved = jnp.array([0.0, 0.9 * ROUNDING, 0.3, -0.2]).reshape(1, 1, 4)
    value, gradient, _ = by_log_probs(HighCovarianceDistance(), rollouts.behaviour_log_probs + moved, rollouts)
    assert_close(value.sum(), 0.5)
    assert_close(gradient.ravel(), [0, 0, 1, -1])
