"""The memory that a language model's vocabulary costs: blocks of logits, never all of them."""

import jax
import numpy as np
import pytest

from ipsrl.policies.transformer import Transformer
from tests.policies.hugging_face.decoder_families import answered, left_padded

PROMPTS, GROUP, LENGTH = 2, 4, 64


@pytest.mark.slow
def test_no_array_of_all_logits_in_a_gradient():
    vocabulary = 150_000
    policy = Transformer(vocabulary, hidden_size=8, num_layers=1, logits_at_once=2 * PROMPTS * GROUP * vocabulary)
    all_logits = PROMPTS * GROUP * LENGTH * vocabulary * 4

    def loss(parameters, trajectories):
        scores = policy.score(parameters, trajectories, 1.0)
        log_probs, _ = policy.prompt_log_probs(parameters, trajectories.prompts, 1.0)
        return scores.log_probs.sum() + scores.entropy.sum() + log_probs.sum()

    parameters = jax.eval_shape(policy.init, jax.random.key(0))
    prompts = left_padded([np.zeros(length, int) for length in (6, 4)])
    mask = np.ones((PROMPTS, GROUP, LENGTH), bool)
    trajectories = answered(prompts, np.zeros(mask.shape, int), mask)
    for function in (loss, jax.grad(loss)):
        compiled = jax.jit(function).lower(parameters, trajectories).compile()
        assert compiled.memory_analysis().temp_size_in_bytes < all_logits / 3
        # No instruction makes them either, in any order of the axes.
        assert f"{LENGTH},{vocabulary}]" not in compiled.as_text()
