import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.search_diversity.agents import ALL as TASK
from experiments.search_diversity.agents import POLICY, demonstrations, prior
from experiments.search_diversity.shared_table import replayed
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.given_answers import given_answers
from ipsrl.rollouts.sampler import sample_groups


def test_a_state_shares_its_row_with_those_that_ask_for_the_same_relation():
    for prompt, (_, chain) in enumerate(TASK.questions):
        for queries in range(TASK.lookups + 1):
            following = chain[queries] if queries < len(chain) else TASK.relations
            row = POLICY.shared_row[int(TASK.number_of(prompt, queries, 3, 5))]
            assert row == (following * TASK.entities + 3) * (TASK.entities + 1) + 5


def test_without_a_shared_part_it_is_a_table():
    own = jax.random.normal(jax.random.key(0), (TASK.num_observations, TASK.vocabulary_size))
    parameters, prompts = POLICY.init(jax.random.key(0)) | {"own": own}, TASK.prompts(jnp.arange(4))
    sampled = sample_groups(TASK, POLICY, parameters, prompts, jax.random.key(1), 8)
    table = Tabular(TASK.num_observations, TASK.vocabulary_size)
    assert (sampled.tokens == sample_groups(TASK, table, {"logits": own}, prompts, jax.random.key(1), 8).tokens).all()
    scores = POLICY.score(parameters, sampled, 1.0).log_probs
    assert np.asarray(scores) == pytest.approx(np.asarray(sampled.behaviour_log_probs), abs=1e-5)


def test_the_shared_part_moves_questions_that_were_not_asked():
    parameters = POLICY.init(jax.random.key(0))
    parameters["shared"] = parameters["shared"].at[:, 1].set(2.0)
    assert (POLICY.logits(parameters, jnp.arange(TASK.num_observations))[:, 1] == 2).all()


def test_replayed_answers_are_those_of_the_sampler():
    sampled = sample_groups(
        TASK,
        POLICY,
        jax.tree.map(lambda leaf: leaf[0], prior((0,))),
        TASK.prompts(jnp.arange(8)),
        jax.random.key(2),
        16,
    )
    lengths = sampled.written.sum(axis=-1)
    given = given_answers(sampled.prompts, sampled.tokens, lengths, own=sampled.token_mask)
    found = replayed(TASK, given)
    mask = np.asarray(sampled.token_mask)
    assert (np.asarray(found.observations) == np.asarray(sampled.observations))[mask].all()
    assert (np.asarray(found.legal_actions) == np.asarray(sampled.legal_actions))[mask].all()
    assert (np.asarray(found.written) == np.asarray(sampled.written)).all()


def test_demonstrations_are_legal_and_can_be_scored():
    shown = demonstrations("all", answers=4, seed=0)
    scores = POLICY.score(POLICY.init(jax.random.key(0)), shown, 1.0).log_probs
    assert np.isfinite(np.asarray(scores)[np.asarray(shown.token_mask)]).all()
