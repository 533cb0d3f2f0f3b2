import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.environments.tasks.long_work import LongWork
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import verify


def test_forced_work_comes_first_and_counts_for_nothing():
    task = LongWork(digits=1, problems=4, longest_work=5, work=5)
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


def test_random_forms_repeat_the_digits_and_mean_the_same():
    task, rng = LongWork(digits=3, problems=4, longest_work=7), np.random.default_rng(0)
    number = 579 * len(task.spellings)
    forms = [task.spell("579", rng) for _ in range(200)]
    assert task.spell("579", None) == ["5", "7", "9"]
    assert {len(form) for form in forms} == {3, *range(3 + 2, 3 + 8 + 1)}
    assert max(forms, key=len) == [*"9759759", ":", *"579"]
    assert {task.parse([task.vocabulary.index(symbol) for symbol in form] + [2]) for form in forms} == {number}
    longest = max(len(task.spell(answer, None)) for answer in task.answers)
    assert task.longest_answer == longest + 8
