import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ipsrl.objectives import make
from ipsrl.objectives.catalog.forks import HighEntropyTokens
from ipsrl.objectives.estimators.token_shares import rounded_down, rounded_up
from tests.objectives.groups import assert_close, random_rollouts, rollouts_of, token_advantages

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
