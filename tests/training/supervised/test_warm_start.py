import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.environments.text import ANSWER
from ipsrl.policies.transformer import Transformer
from ipsrl.records.run_log import NonFiniteLossError
from ipsrl.rollouts.given_answers import given_answers
from ipsrl.rollouts.sampled_answers import independent_answers
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.training.supervised import warm_start
from ipsrl.training.supervised.warm_start import (
    WarmStart,
    answer_weights,
    learn_prior,
    prior_parameters,
    rendered_answers,
)

CAUSAL = HypospaceCausal(3)
SMALL = HypospaceCausal(2)
POLICY = Transformer(SMALL.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=1)
SETTINGS = WarmStart(
    admissible_share=0.9,
    zipf_exponent=2.0,
    steps=150,
    prompts_per_step=14,
    answers_per_prompt=8,
    learning_rate=1e-2,
    renderings=2,
)


@pytest.mark.parametrize(("share", "exponent"), [(0.0, 1.0), (0.6, 0.0), (0.6, 2.0), (1.0, 1.0)])
def test_weights_are_a_mixture_of_zipf_and_uniform(share, exponent):
    settings = WarmStart(admissible_share=share, zipf_exponent=exponent)
    weights = answer_weights(CAUSAL, settings, np.random.default_rng(5)).astype(np.float64)
    admissible = CAUSAL.admissible
    assert weights.shape == admissible.shape
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-6)

    uniform = (1 - share) / 25
    np.testing.assert_allclose(weights[~admissible], uniform, atol=1e-7)
    zipf = np.where(admissible, weights - uniform, 0.0)
    np.testing.assert_allclose(zipf.sum(axis=1), share, atol=1e-6)
    if share == 0:
        return
    # One order of all hypotheses explains every prompt: weights times rank^s are the same among the admissible ones.
    rank = 1 + np.random.default_rng(5).permutation(25)
    levelled = zipf * rank**exponent
    for row, allowed in zip(levelled, admissible, strict=True):
        np.testing.assert_allclose(row[allowed], row[allowed][0], rtol=1e-4)


def test_every_surface_form_is_read_back():
    task = HypospaceBoolean("full", depth=2)
    tokens, lengths = rendered_answers(task, 4, np.random.default_rng(0))
    assert tokens.shape == (task.num_hypotheses, 4, task.max_tokens)
    for hypothesis in range(task.num_hypotheses):
        for row, length in zip(tokens[hypothesis], lengths[hypothesis], strict=True):
            assert task.parse(row[:length]) == hypothesis
            assert not row[length:].any()
        np.testing.assert_array_equal(tokens[hypothesis, 0, : lengths[hypothesis, 0]], task.render(hypothesis))
    # Most hypotheses have many forms.
    assert np.mean([len(np.unique(forms, axis=0)) for forms in tokens]) > 2


def test_given_answers_look_as_if_they_had_been_sampled():
    parameters = jax.jit(POLICY.init)(jax.random.key(0))
    prompts = SMALL.prompts(jnp.arange(5))
    sampled = sample_groups(SMALL, POLICY, parameters, prompts, jax.random.key(1), 6)
    sampled = jax.device_get(sampled)
    lengths = sampled.token_mask.sum(axis=-1)
    assert lengths.min() < lengths.max()
    given = given_answers(prompts, sampled.tokens, lengths)
    mask = np.asarray(sampled.token_mask)
    np.testing.assert_array_equal(given.token_mask, mask)
    np.testing.assert_array_equal(np.asarray(given.observations)[mask], np.asarray(sampled.observations)[mask])
    assert (given.observations[:, :, 0] == ANSWER).all()
    scored = jax.jit(POLICY.score, static_argnums=2)(parameters, given, 1.0).log_probs
    np.testing.assert_allclose(scored, sampled.behaviour_log_probs, atol=1e-5)


@pytest.fixture(scope="module")
def prior():
    return prior_parameters(SMALL, POLICY, SETTINGS)


@pytest.mark.slow
def test_the_prior_is_as_right_as_asked_and_biased_as_asked(prior):
    outcomes = independent_answers(SMALL, POLICY, prior, jax.random.key(0), answers_per_prompt=400).outcomes
    weights = answer_weights(SMALL, SETTINGS, np.random.default_rng(SETTINGS.seed))
    shares = np.stack([(outcomes.outcome_id == hypothesis).mean(axis=1) for hypothesis in range(3)], axis=1)
    # Nearly every answer is well-formed, which 1 in 48 would be by chance.
    assert shares.sum() / SMALL.num_prompts > 0.97
    assert np.abs(shares - weights).max() < 0.15
    uninformed = SMALL.admissible.mean()
    validity = (weights * SMALL.admissible).sum(axis=1).mean()
    assert uninformed < 0.5 < 0.9 < validity
    assert outcomes.rewards.mean() == pytest.approx(validity, abs=0.07)
    # Where several are right, it has the favourite that it was taught.
    np.testing.assert_array_equal(shares.argmax(axis=1), weights.argmax(axis=1))


def test_a_prior_is_learned_once(prior, monkeypatch):
    learned = []

    def learn(environment, policy, settings):
        learned.append(settings)
        return policy.init(jax.random.key(settings.seed))

    monkeypatch.setattr(warm_start, "learn_prior", learn)
    again = prior_parameters(SMALL, POLICY, SETTINGS)
    assert learned == []
    assert jax.tree.structure(again) == jax.tree.structure(prior)
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(prior), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()

    changes = {"seed": 1, "steps": 151, "admissible_share": 0.8, "zipf_exponent": 0.5, "renderings": 3}
    for name, value in changes.items():
        prior_parameters(SMALL, POLICY, dataclasses.replace(SETTINGS, **{name: value}))
    assert len(learned) == len(changes)
    prior_parameters(HypospaceCausal(2, perturbations=1), POLICY, SETTINGS)
    prior_parameters(SMALL, dataclasses.replace(POLICY, rms_norm_epsilon=1e-5), SETTINGS)
    assert len(learned) == len(changes) + 2


@pytest.mark.slow
def test_a_prior_that_is_not_finite_is_none():
    settings = dataclasses.replace(SETTINGS, steps=2, learning_rate=1e30)
    with pytest.raises(NonFiniteLossError, match=r"^step 1 has parameter_norm inf; last good checkpoint: none$"):
        learn_prior(SMALL, POLICY, settings)
