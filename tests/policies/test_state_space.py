"""The selective state-space model against its recurrence written down token by token, in float64."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

from ipsrl.environments.tasks.addition import Addition
from ipsrl.policies import selective_scan as scans
from ipsrl.policies.selective_scan import selective_scan
from ipsrl.policies.state_space import StateSpace
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Prompts
from tests.oracles.plain_models import plain_state_space
from tests.policies.hugging_face.decoder_families import answered, left_padded, step_logits

V, G, T = 11, 3, 7
TEMPERATURE = 0.7
SMALL = StateSpace(V, hidden_size=20, num_layers=2, state_size=3, convolution=3, chunk=3)


def randomised(policy: StateSpace, seed: int = 0):
    """Parameters with noise on all of them, so that none is 0 or 1."""
    parameters = jax.device_get(jax.jit(policy.init)(jax.random.key(seed)))
    generator = np.random.default_rng(seed + 1)
    return jax.tree.map(lambda leaf: leaf + np.float32(0.3 * generator.normal(size=leaf.shape)), parameters)


PARAMETERS = randomised(SMALL)
SCORE = jax.jit(StateSpace.score, static_argnums=0)


def make_prompts(lengths=(1, 4, 6), extra_padding=0) -> Prompts:
    generator = np.random.default_rng(0)
    return left_padded([generator.integers(0, V, length) for length in lengths], extra_padding)


def make_trajectories(prompts: Prompts):
    generator = np.random.default_rng(1)
    number = prompts.tokens.shape[0]
    mask = np.arange(T) < generator.integers(1, T + 1, (number, G, 1))
    return answered(prompts, generator.integers(0, V, (number, G, T)), mask)


def test_the_papers_policy_has_its_number_of_parameters():
    # Saturn's prior of arXiv 2405.17066, vocabulary 37: 438,016 in each of 12 layers.
    policy = StateSpace(37, hidden_size=256, num_layers=12)
    shapes = jax.eval_shape(policy.init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 5_265_920
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes["layers"][3])) == 438_016


def test_layers_made_one_by_one_are_those_of_all():
    key = jax.random.key(4)
    layer = jax.jit(SMALL.init_layer)
    one_by_one = {number: layer(key, number) for number in range(SMALL.num_layers)}
    jax.tree.map(np.testing.assert_array_equal, one_by_one, jax.jit(SMALL.init)(key)["layers"])
    assert layer._cache_size() == 1


@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_score_and_step_equal_the_recurrence(chunk):
    policy, prompts = dataclasses.replace(SMALL, chunk=chunk), make_prompts()
    trajectories = make_trajectories(prompts)
    scores = SCORE(policy, PARAMETERS, trajectories, TEMPERATURE)
    stepped = log_softmax(
        np.asarray(step_logits(policy, PARAMETERS, prompts, trajectories.observations)) / TEMPERATURE, axis=-1
    )
    for number in range(3):
        prompt = np.asarray(prompts.tokens[number])[np.asarray(prompts.mask[number])]
        for member in range(G):
            tokens = np.asarray(trajectories.tokens[number, member])
            expected = plain_state_space(policy, PARAMETERS, [*prompt, *tokens[:-1]], TEMPERATURE)[-T:]
            mask = np.asarray(trajectories.token_mask[number, member])
            chosen = expected[np.arange(T), tokens]
            assert np.where(mask, chosen, 0) == pytest.approx(np.asarray(scores.log_probs[number, member]), abs=1e-5)
            entropy = -(np.exp(expected) * expected).sum(-1)
            assert np.where(mask, entropy, 0) == pytest.approx(np.asarray(scores.entropy[number, member]), abs=1e-5)
            # The rounding of float32, which NumPy's recurrence has too, grows with the largest number.
            assert stepped[number, member] == pytest.approx(expected, abs=2e-6 * np.abs(expected).max())


def test_the_sampler_and_the_scorer_agree():
    environment = Addition(problems=4)
    policy = dataclasses.replace(SMALL, vocabulary_size=environment.vocabulary_size)
    parameters = randomised(policy)
    sampled = sample_groups(environment, policy, parameters, environment.prompts(jnp.arange(4)), jax.random.key(3), 5)
    scores = SCORE(policy, parameters, sampled, 1.0)
    assert np.asarray(sampled.behaviour_log_probs) == pytest.approx(np.asarray(scores.log_probs), abs=1e-5)
    assert np.asarray(sampled.behaviour_entropy) == pytest.approx(np.asarray(scores.entropy), abs=1e-5)


def test_prompt_log_probs_equal_the_recurrence():
    prompts = make_prompts()
    log_probs, mask = jax.jit(SMALL.prompt_log_probs)(PARAMETERS, prompts, TEMPERATURE)
    assert mask.sum(axis=1).tolist() == [0, 3, 5]
    for number in (1, 2):
        prompt = np.asarray(prompts.tokens[number])[np.asarray(prompts.mask[number])]
        expected = plain_state_space(SMALL, PARAMETERS, prompt, TEMPERATURE)[np.arange(len(prompt) - 1), prompt[1:]]
        assert np.asarray(log_probs[number])[np.asarray(mask[number])] == pytest.approx(expected, abs=1e-5)
    assert not np.asarray(log_probs)[~np.asarray(mask)].any()


def test_features_are_the_mean_of_the_states_after_each_token():
    """Compares features after the unembedding: log-probabilities after each token, up to a constant for all tokens."""
    trajectories, head = make_trajectories(make_prompts()), PARAMETERS["embedding"]
    features = jax.jit(SMALL.answer_features)(PARAMETERS, trajectories)
    for number in range(3):
        prompt = np.asarray(trajectories.prompts.tokens)[number][np.asarray(trajectories.prompts.mask)[number]]
        for member in range(G):
            count = int(trajectories.token_mask[number, member].sum())
            answer = np.asarray(trajectories.tokens)[number, member, :count]
            following = plain_state_space(SMALL, PARAMETERS, [*prompt, *answer], TEMPERATURE)[-count:].mean(axis=0)
            expected = TEMPERATURE * (following - following.mean())
            logits = head @ np.asarray(features[number, member])
            np.testing.assert_allclose(logits - logits.mean(), expected, atol=2e-5)


@pytest.mark.slow
def test_left_padding_changes_neither_scores_nor_gradients():
    def loss(parameters, trajectories):
        scores = SMALL.score(parameters, trajectories, TEMPERATURE)
        return (scores.log_probs + scores.entropy).sum(), scores.log_probs

    value_and_gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))
    (_, plain), gradient = value_and_gradient(PARAMETERS, make_trajectories(make_prompts()))
    (_, padded), same = value_and_gradient(PARAMETERS, make_trajectories(make_prompts(extra_padding=4)))
    assert np.asarray(plain) == pytest.approx(np.asarray(padded), abs=1e-5)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(gradient))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=1e-4), gradient, same)


@pytest.mark.slow
def test_prompts_of_one_token_or_none():
    one = make_trajectories(make_prompts((1, 1)))
    none = dataclasses.replace(
        one, prompts=Prompts(one.prompts.index, one.prompts.tokens[:, :0], one.prompts.mask[:, :0])
    )
    # Without a prompt the first observation is the first token as well.
    scores = [SCORE(SMALL, PARAMETERS, trajectories, TEMPERATURE).log_probs for trajectories in (one, none)]
    assert np.asarray(scores[0]) == pytest.approx(np.asarray(scores[1]), abs=1e-6)


@pytest.mark.slow
def test_a_trajectory_that_waits_reads_its_token_again_without_a_trace():
    prompts = make_prompts()
    cache = jax.jit(SMALL.start, static_argnums=(2, 3))(PARAMETERS, prompts, G, T)
    step = jax.jit(SMALL.step)
    tokens = jax.random.randint(jax.random.key(0), (4, 3, G), 0, V)
    waits = np.array([[True, False, False], [False, True, False], [False, False, False]])
    position, alone = np.zeros((3, G), int), cache
    logits, cache = step(PARAMETERS, cache, tokens[0], jnp.asarray(position))
    expected, alone = step(PARAMETERS, alone, tokens[0], jnp.int32(0))
    for number in (1, 2, 3):
        # Those that wait are shown the token before once more.
        for _ in range(2):
            shown = jnp.where(waits, tokens[number - 1], tokens[number])
            logits, cache = step(PARAMETERS, cache, shown, jnp.asarray(position + ~waits))
        logits, cache = step(PARAMETERS, cache, tokens[number], jnp.asarray(position := position + 1))
        expected, alone = step(PARAMETERS, alone, tokens[number], jnp.int32(number))
        assert np.asarray(logits) == pytest.approx(np.asarray(expected), abs=1e-5)


def test_bfloat16_is_close_to_float32():
    rounded, trajectories = dataclasses.replace(SMALL, dtype="bfloat16"), make_trajectories(make_prompts())
    parameters = jax.jit(SMALL.init)(jax.random.key(0))
    exact = SCORE(SMALL, parameters, trajectories, 1.0).log_probs
    near = SCORE(rounded, parameters, trajectories, 1.0).log_probs
    assert near.dtype == jnp.float32
    assert 0 < np.abs(np.asarray(exact - near)).max() < 0.02


def naive_scan(rates, steps, inputs, write, read, state):
    outputs = []
    for t in range(steps.shape[-2]):
        kept = jnp.exp(steps[..., t, :, None] * rates) * state
        state = kept + (steps * inputs)[..., t, :, None] * write[..., t, None, :]
        outputs.append((state * read[..., t, None, :]).sum(-1))
    return jnp.stack(outputs, axis=-2), state


def value_and_gradient(scan):
    def loss(*arguments):
        outputs, last = scan(*arguments)
        return (outputs**2).sum() + jnp.sin(last).sum()

    return jax.jit(jax.value_and_grad(loss, tuple(range(6))))


NAIVE = value_and_gradient(naive_scan)


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
@pytest.mark.parametrize("chunk", [1, 4, 5, 10])
def test_the_scan_and_its_gradient_equal_the_recurrences(monkeypatch, platform, chunk):
    # Elsewhere than on CPU the recurrence within a chunk is an associative scan, which runs here just as well.
    monkeypatch.setattr(scans, "platform", lambda: platform)
    draw = np.random.default_rng(0).normal
    rates, steps = -np.exp(draw(size=(6, 3))), np.exp(draw(size=(2, 3, 10, 6)))
    inputs, write, read = draw(size=(2, 3, 10, 6)), draw(size=(2, 3, 10, 3)), draw(size=(2, 3, 10, 3))
    arguments = tuple(
        jnp.asarray(array, jnp.float32) for array in (rates, steps, inputs, write, read, draw(size=(2, 3, 6, 3)))
    )

    expected = NAIVE(*arguments)
    found = value_and_gradient(lambda *arguments: selective_scan(*arguments, chunk))(*arguments)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4), found, expected)
