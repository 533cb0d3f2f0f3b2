"""Scores of sampled tokens without all logits at once."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.policies.policy import Actions, score_hidden, score_logits
from tests.tiers import slow_after

PROMPTS, GROUP, LENGTH, HIDDEN, VOCABULARY = 2, 3, 7, 5, 11


def random_actions(rng, legal=False, top=False):
    shape = (PROMPTS, GROUP, LENGTH)
    tokens = rng.integers(0, VOCABULARY, shape)
    mask = np.arange(LENGTH) < rng.integers(1, LENGTH + 1, shape[:2])[..., None]
    legal_actions = rng.random((*shape, VOCABULARY)) < 0.6
    np.put_along_axis(legal_actions, tokens[..., None], True, axis=-1)
    legal_actions &= mask[..., None]  # after the end nothing is legal
    return Actions(
        tokens=jnp.asarray(tokens),
        token_mask=jnp.asarray(mask),
        legal_actions=jnp.asarray(legal_actions) if legal else None,
        top_tokens=jnp.asarray(rng.integers(0, VOCABULARY, (*shape, 2))) if top else None,
    )


@pytest.mark.parametrize("options", [{}, {"legal": True}, {"top": True}], ids=["plain", "legal actions", "top tokens"])
@pytest.mark.parametrize("at_once", slow_after(1, [3, 1, 8]))
def test_blocks_change_neither_scores_nor_gradients(options, at_once):
    rng = np.random.default_rng(0)
    actions = random_actions(rng, **options)
    hidden = jnp.asarray(rng.normal(size=(PROMPTS, GROUP, LENGTH, HIDDEN)), jnp.float32)
    kernel = jnp.asarray(rng.normal(size=(HIDDEN, VOCABULARY)), jnp.float32)
    weights = jnp.asarray(rng.normal(size=(PROMPTS, GROUP, LENGTH)), jnp.float32)

    def in_blocks(hidden, kernel):
        return score_hidden(lambda some: some @ kernel, hidden, actions, 0.7, at_once)

    def whole(hidden, kernel):
        return score_logits(hidden @ kernel, actions, 0.7)

    def found(score):
        def loss(hidden, kernel):
            scores = score(hidden, kernel)
            total = jnp.sum(weights * scores.log_probs) + 0.3 * jnp.sum(weights**2 * scores.entropy)
            if scores.top_log_probs is not None:
                total += jnp.where(jnp.isfinite(scores.top_log_probs), scores.top_log_probs, 0.0).sum()
            return total, scores

        return jax.jit(jax.grad(loss, (0, 1), has_aux=True))(hidden, kernel)

    (gradients, scores), (expected_gradients, expected) = found(in_blocks), found(whole)
    for ours, theirs, tolerance in ((scores, expected, 1e-6), (gradients, expected_gradients, 2e-6)):
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=tolerance), ours, theirs)


def test_the_mean_of_log_probabilities_counts_each_legal_action_once():
    rng = np.random.default_rng(1)
    actions = random_actions(rng, legal=True)
    logits = rng.normal(size=(PROMPTS, GROUP, LENGTH, VOCABULARY))
    found = score_logits(jnp.float32(logits), actions, 0.7).mean_log_probs
    for place in np.ndindex(PROMPTS, GROUP, LENGTH):
        legal = logits[place][np.asarray(actions.legal_actions[place])] / 0.7
        expected = (legal - np.log(np.exp(legal).sum())).mean() if actions.token_mask[place] else 0.0
        np.testing.assert_allclose(found[place], expected, rtol=1e-5)
    # A logit of -inf is as good as an illegal action.
    blocked = jnp.where(actions.legal_actions, jnp.float32(logits), -jnp.inf)
    free = dataclasses.replace(actions, legal_actions=None)
    mask = np.asarray(actions.token_mask)
    np.testing.assert_allclose(score_logits(blocked, free, 0.7).mean_log_probs[mask], found[mask], rtol=1e-6)
    assert not jax.grad(lambda some: score_logits(some, actions, 0.7).mean_log_probs.sum())(jnp.float32(logits)).any()
