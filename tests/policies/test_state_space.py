"""Promises of the selective state-space model alone: its size, its scan, its waiting."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.policies import selective_scan as scans
from ipsrl.policies.selective_scan import selective_scan
from ipsrl.policies.state_space import StateSpace
from tests.policies.small_models import SCORE, STATE_SPACE, G, T, V, make_prompts, make_trajectories, parameters_of


def test_the_papers_policy_has_its_number_of_parameters():
    # Saturn's prior of arXiv 2405.17066, vocabulary 37: 438,016 in each of 12 layers.
    policy = StateSpace(37, hidden_size=256, num_layers=12)
    shapes = jax.eval_shape(policy.init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 5_265_920
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes["layers"][3])) == 438_016


@pytest.mark.slow
def test_a_trajectory_that_waits_reads_its_token_again_without_a_trace():
    prompts = make_prompts()
    cache = jax.jit(STATE_SPACE.start, static_argnums=(2, 3))(parameters_of(STATE_SPACE), prompts, G, T)
    step = jax.jit(STATE_SPACE.step)
    tokens = jax.random.randint(jax.random.key(0), (4, 3, G), 0, V)
    waits = np.array([[True, False, False], [False, True, False], [False, False, False]])
    position, alone = np.zeros((3, G), int), cache
    logits, cache = step(parameters_of(STATE_SPACE), cache, tokens[0], jnp.asarray(position))
    expected, alone = step(parameters_of(STATE_SPACE), alone, tokens[0], jnp.int32(0))
    for number in (1, 2, 3):
        # Those that wait are shown the token before once more.
        for _ in range(2):
            shown = jnp.where(waits, tokens[number - 1], tokens[number])
            logits, cache = step(parameters_of(STATE_SPACE), cache, shown, jnp.asarray(position + ~waits))
        logits, cache = step(parameters_of(STATE_SPACE), cache, tokens[number], jnp.asarray(position := position + 1))
        expected, alone = step(parameters_of(STATE_SPACE), alone, tokens[number], jnp.int32(number))
        assert np.asarray(logits) == pytest.approx(np.asarray(expected), abs=1e-5)


def test_bfloat16_is_close_to_float32():
    rounded, trajectories = dataclasses.replace(STATE_SPACE, dtype="bfloat16"), make_trajectories(make_prompts())
    parameters = jax.jit(STATE_SPACE.init)(jax.random.key(0))
    exact = SCORE(STATE_SPACE, parameters, trajectories, 1.0).log_probs
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
