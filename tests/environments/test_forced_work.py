"""Addition with forced work."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.addition import Addition
from ipsrl.environments.forced_work import ForcedWork
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import verify


def test_work_comes_first_and_counts_for_nothing():
    task = ForcedWork(digits=1, problems=4, scratchpad="optional", work=5)
    policy = Transformer(task.vocabulary_size, hidden_size=8, num_layers=1)
    sampled = sample_groups(
        task, policy, policy.init(jax.random.key(0)), task.prompts(np.arange(4)), jax.random.key(1), group_size=8
    )
    texts = [text.split() for answers in np.asarray(sampled.tokens) for text in task.answer_texts(answers)]
    assert all(set(text[:5]) <= set("0123456789") and text[5] == ":" for text in texts)
    assert len({tuple(text[:5]) for text in texts}) > 8
    assert (np.asarray(sampled.dictated).sum(axis=-1) == 1).all()
    assert not np.asarray(sampled.token_mask)[..., 5].any()
    right = [task.render(int(np.flatnonzero(row)[2])) for row in task.admissible]
    tokens = np.zeros_like(sampled.tokens)
    for prompt, answer in enumerate(right):
        tokens[prompt, :, :6] = np.asarray(sampled.tokens)[prompt, :, :6]
        tokens[prompt, :, 6 : 6 + len(answer)] = answer
    written = np.ones_like(sampled.token_mask)
    answered = dataclasses.replace(sampled, tokens=jnp.asarray(tokens), token_mask=jnp.asarray(written))
    outcomes = verify(task, answered)
    assert (np.asarray(outcomes.rewards) == 1).all()
    assert outcomes.outcome_id[:, 0].tolist() == [int(np.flatnonzero(row)[2]) for row in task.admissible]


def test_it_needs_a_scratchpad():
    assert ForcedWork(scratchpad="optional", work=3).max_tokens == Addition(scratchpad="optional").max_tokens + 4
    with pytest.raises(ValueError, match="scratchpad is none, it must be optional"):
        ForcedWork()
