"""What a language model's vocabulary costs in memory: blocks of logits, never all of them."""

import dataclasses

import jax
import numpy as np
from decoder_families import answered, left_padded, random_parameters

from ipsrl.policies.transformer import Transformer
from ipsrl.structures import Trajectories

PROMPTS, GROUP, PROMPT_LENGTH, LENGTH = 2, 4, 6, 64


def sampled(vocabulary: int, length: int = LENGTH) -> Trajectories:
    rng = np.random.default_rng(0)
    prompts = left_padded([rng.integers(0, vocabulary, size) for size in (PROMPT_LENGTH, PROMPT_LENGTH - 2)])
    mask = np.arange(length) < rng.integers(1, length + 1, (PROMPTS, GROUP, 1))
    return answered(prompts, rng.integers(0, vocabulary, mask.shape), mask)


def test_blocks_of_logits_change_nothing_but_rounding():
    whole = Transformer(19, hidden_size=16, num_layers=1)
    blocks = dataclasses.replace(whole, logits_at_once=PROMPTS * GROUP * 19 * 5)
    # Two blocks, and a rest.
    parameters, trajectories = random_parameters(whole), sampled(19, length=12)

    def scored(parameters, policy):
        read = policy.prompt_log_probs(parameters, trajectories.prompts, 0.8)
        return policy.score(parameters, trajectories, 0.8), read

    compiled = jax.jit(scored, static_argnums=1)
    ours, theirs = (compiled(parameters, policy) for policy in (blocks, whole))
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
    trajectories = sampled(vocabulary)
    for function in (loss, jax.grad(loss)):
        compiled = jax.jit(function).lower(parameters, trajectories).compile()
        assert compiled.memory_analysis().temp_size_in_bytes < all_logits / 3
        # No instruction makes them either, in any order of the axes.
        assert f"{LENGTH},{vocabulary}]" not in compiled.as_text()
