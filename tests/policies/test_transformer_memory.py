"""What a language model's vocabulary costs in memory: blocks of logits, never all of them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.policies.transformer import Transformer
from ipsrl.structures import Prompts, Trajectories

PROMPTS, GROUP, PROMPT_LENGTH, LENGTH = 2, 4, 6, 64


def sampled(vocabulary: int) -> Trajectories:
    rng = np.random.default_rng(0)
    shape = (PROMPTS, GROUP, LENGTH)
    prompt_mask = np.arange(PROMPT_LENGTH) >= np.array([[0], [2]])
    mask = np.arange(LENGTH) < rng.integers(1, LENGTH + 1, shape[:2])[..., None]
    tokens = rng.integers(0, vocabulary, (2, *shape))
    prompts = rng.integers(0, vocabulary, (PROMPTS, PROMPT_LENGTH))
    return Trajectories(
        prompts=Prompts(jnp.arange(PROMPTS), jnp.asarray(prompts), jnp.asarray(prompt_mask)),
        observations=jnp.asarray(tokens[0]),
        tokens=jnp.asarray(tokens[1]),
        token_mask=jnp.asarray(mask),
        legal_actions=None,
        behaviour_log_probs=jnp.zeros(shape),
        behaviour_entropy=jnp.zeros(shape),
        truncated=jnp.zeros(shape[:2], bool),
    )


def test_blocks_of_logits_change_nothing_but_rounding():
    whole = Transformer(19, hidden_size=16, num_layers=1)
    blocks = dataclasses.replace(whole, logits_at_once=PROMPTS * GROUP * 19 * 5)
    parameters, trajectories = whole.init(jax.random.key(0)), sampled(19)

    def loss(parameters, policy):
        scores = policy.score(parameters, trajectories, 0.8)
        log_probs, _ = policy.prompt_log_probs(parameters, trajectories.prompts, 0.8)
        return jnp.sum(scores.log_probs * scores.entropy) + jnp.sum(log_probs), (scores, log_probs)

    gradient = jax.jit(jax.grad(loss, has_aux=True), static_argnums=1)
    ours, theirs = (gradient(parameters, policy) for policy in (blocks, whole))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5), ours, theirs)


def test_no_array_of_all_logits_in_a_gradient():
    vocabulary = 150_000
    policy = Transformer(vocabulary, hidden_size=8, num_layers=1, logits_at_once=2 * PROMPTS * GROUP * vocabulary)
    all_logits = PROMPTS * GROUP * LENGTH * vocabulary * 4

    def loss(parameters, trajectories):
        scores = policy.score(parameters, trajectories, 1.0)
        log_probs, _ = policy.prompt_log_probs(parameters, trajectories.prompts, 1.0)
        return scores.log_probs.sum() + scores.entropy.sum() + log_probs.sum()

    parameters = jax.eval_shape(policy.init, jax.random.key(0))
    trajectories = jax.eval_shape(lambda: sampled(vocabulary))
    for function in (loss, jax.grad(loss)):
        compiled = jax.jit(function).lower(parameters, trajectories).compile()
        assert compiled.memory_analysis().temp_size_in_bytes < all_logits / 3
        # No instruction makes them either, in any order of the axes.
        assert f"{LENGTH},{vocabulary}]" not in compiled.as_text()
