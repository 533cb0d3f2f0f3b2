"""Parts that choose tokens by their rank in a batch, and what they share."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ipsrl.objectives import make
from ipsrl.objectives.catalog.covariance import ROUNDING, DropHighCovariance, HighCovarianceDistance, token_covariance
from ipsrl.objectives.catalog.forks import HighEntropyTokens
from ipsrl.objectives.estimators.token_shares import rounded_down, rounded_up
from tests.objectives.groups import assert_close, by_log_probs, random_rollouts, rollouts_of, token_advantages

COVARIANCE = [0.6592, 0.6192, -1.7008, 0.3912, -1.0248]
LOG_PROBS, ADVANTAGES = [-0.05, -0.1, -3, -1.2, -0.02], [1.0, 1, 1, -1, -1]


def five_tokens(**fields):
    """The five tokens as answers of two groups; the sixth token is padding."""
    behaviour = np.array([*LOG_PROBS, 50.0]).reshape(2, 1, 3)
    mask = np.arange(6).reshape(2, 1, 3) < 5
    return rollouts_of(behaviour, mask, keys=jax.random.split(jax.random.key(0), 2), **fields), jnp.array(
        [*ADVANTAGES, -70.0]
    ).reshape(2, 1, 3)


def test_covariance_is_centred_over_all_valid_tokens():
    rollouts, advantages = five_tokens()
    assert_close(token_covariance(advantages, rollouts).ravel(), [*COVARIANCE, 0.0])


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


ENTROPIES = [[[0.01, 0.9, 0.02, 0.3, 9.0], [1.4, 0.05, 0.7, 0, 0.2]]]
VALID = np.array([[[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]], bool)


def with_entropies():
    return rollouts_of(np.full((1, 2, 5), -1.0), VALID, behaviour_entropy=np.array(ENTROPIES, np.float32))


def test_rules_that_round_differently():
    """ceil(0.9 * 9) = 9 are kept by rank; the quantile at position 0.8 lies above the lowest."""
    rollouts = with_entropies()
    assert HighEntropyTokens(0.9, "rank").kept(rollouts).sum() == 9
    assert HighEntropyTokens(0.9, "quantile").kept(rollouts).sum() == 8
    assert HighEntropyTokens(1.0, "quantile").kept(rollouts).sum() == 9


WIDE = 20_000


@settings(deadline=None, max_examples=100)
@given(length=st.integers(1, WIDE), percent=st.integers(1, 100))
@example(length=50, percent=30)  # in float32, 0.3 * 50 is more than 15
@example(length=10, percent=20)
@example(length=10_250, percent=30)  # 3075 + 1.2e-4
@example(length=WIDE, percent=99)
def test_the_number_of_tokens_is_rounded_up_or_down(length, percent):
    """Up for tokens of high entropy, down for those of high covariance."""
    mask = np.arange(WIDE) < length
    assert rounded_up(percent / 100, mask) == -(-percent * length // 100)
    assert rounded_down(percent / 100, mask) == max(1, percent * length // 100)


@pytest.mark.parametrize("threshold", ["rank", "quantile"])
def test_with_equal_entropies_every_token_is_kept(threshold):
    rollouts = rollouts_of(np.full((1, 2, 5), -1.0), VALID, behaviour_entropy=np.full((1, 2, 5), 0.3, np.float32))
    assert (HighEntropyTokens(0.2, threshold).kept(rollouts) == VALID).all()


@pytest.mark.parametrize(("threshold", "denominator"), [("rank", "kept"), ("quantile", "all")])
def test_the_loss_is_the_mean_over_kept_tokens_or_over_all(threshold, denominator):
    """Divided by all tokens later, those that are kept count for more."""
    rollouts, _ = random_rollouts(0, prompts=4, group=5, length=6)
    text = f"forking_tokens(fraction=0.3, threshold={threshold}, denominator={denominator})"
    mask, entropy = np.asarray(rollouts.token_mask), np.asarray(rollouts.behaviour_entropy)
    descending = np.sort(entropy[mask])[::-1]
    by_rank = descending[int(np.ceil(0.3 * mask.sum() - 1e-9)) - 1]
    kept = mask & (entropy >= (by_rank if threshold == "rank" else np.quantile(descending, 0.7)))
    share = kept.sum() / mask.sum() if denominator == "kept" else 1.0
    expected = np.where(kept, np.asarray(token_advantages("grpo", rollouts)) / share, 0.0)
    assert 0.25 < kept.sum() / mask.sum() < 0.35
    assert_close(np.where(mask, token_advantages(text, rollouts), 0.0), expected)


def test_controls_keep_the_others_random_tokens_or_the_plan():
    entropies = with_entropies()
    highest, others = (np.asarray(HighEntropyTokens(tokens=tokens).kept(entropies)) for tokens in ("highest", "others"))
    assert highest.sum() == 2
    assert (highest ^ others == VALID).all()
    planning = np.zeros_like(VALID)
    planning[0, 0, [1, 4]] = planning[0, 1, 0] = True
    marked = dataclasses.replace(entropies, planning_mask=jnp.asarray(planning))
    assert (HighEntropyTokens(tokens="planning").kept(marked) == planning & VALID).all()
    drawn = [
        np.asarray(
            HighEntropyTokens(tokens="random").kept(dataclasses.replace(entropies, keys=jax.random.split(key, 1)))
        )
        for key in jax.random.split(jax.random.key(0), 200)
    ]
    assert {int(kept.sum()) for kept in drawn} == {2}
    assert np.abs(np.mean(drawn, axis=0)[VALID] - 2 / 9).max() < 0.1


def at_forks(advantage, **changes):
    """Values and gradients by log pi and by the likeliest tokens' of an answer whose last token alone is a fork."""
    rollouts, scores = random_rollouts(0, prompts=1, group=1, length=4)
    rollouts = dataclasses.replace(
        rollouts,
        token_mask=jnp.ones((1, 1, 4), bool),
        behaviour_entropy=jnp.array([[[0.1, 0.3, 0.2, 1.0]]]),
        tokens=rollouts.top_tokens[..., 0],
        behaviour_log_probs=jnp.full((1, 1, 4), -1.0),
    )
    scores = dataclasses.replace(scores, log_probs=jnp.full((1, 1, 4), -0.9))
    surrogate = dataclasses.replace(make("simko").surrogate, **changes)

    def total(scores):
        values = surrogate(scores, rollouts, jnp.full((1, 1, 4), advantage))[0]
        return values.sum(), values[0, 0]

    gradient, values = jax.grad(total, has_aux=True)(scores)
    return values, gradient.log_probs[0, 0], gradient.top_log_probs[0, 0]


def test_right_answers_spread_the_credit_of_forks_over_the_likeliest_tokens():
    """The ratio is e^0.1 = 1.105."""
    ratio = np.exp(0.1)
    values, own, likeliest = at_forks(2.0, spread=0.3)
    assert_close(values, np.full(4, 2 * ratio))
    assert_close(own, 2 * ratio * np.array([1, 1, 1, 0.7]))
    assert_close(likeliest, 2 * ratio * np.outer([0, 0, 0, 1], np.full(3, 0.1)))
    assert not at_forks(2.0, spread=0.3, high=0.1)[1].any(), "a clip that is active removes the whole gradient"


def test_wrong_answers_weigh_more_at_forks_where_the_token_is_the_likeliest():
    values, own, likeliest = at_forks(-2.0, heavier=1.5)
    assert_close(values, -2 * np.exp(0.1) * np.array([1, 1, 1, 1.5]))
    assert_close(own, values)
    assert not likeliest.any()


def test_impossible_tokens_take_no_credit():
    rollouts, scores = random_rollouts(0, prompts=1, group=1, length=3)
    rollouts = dataclasses.replace(
        rollouts,
        token_mask=jnp.ones((1, 1, 3), bool),
        behaviour_entropy=jnp.array([[[0.1, 0.2, 1.0]]]),
        top_log_probs=rollouts.top_log_probs.at[..., 2].set(-jnp.inf),
    )
    scores = dataclasses.replace(
        scores, log_probs=rollouts.behaviour_log_probs, top_log_probs=scores.top_log_probs.at[..., 2].set(-jnp.inf)
    )
    surrogate = make("simko(spread=0.5)").surrogate
    gradient = jax.grad(lambda scores: surrogate(scores, rollouts, jnp.ones((1, 1, 3)))[0].sum())(scores)
    assert_close(gradient.log_probs[0, 0], [1, 1, 0.5])
    assert_close(gradient.top_log_probs[0, 0], np.outer([0, 0, 1], [0.25, 0.25, 0]))
