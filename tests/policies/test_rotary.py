import math

import jax.numpy as jnp
import numpy as np

from ipsrl.policies.rotary import LinearScaling, Llama3Scaling, Rotary, YarnScaling

VECTORS = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 3, 8)), jnp.float32)
POSITIONS = jnp.asarray([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])


def test_pairs_are_turned_by_position_times_frequency():
    turned = Rotary(theta=100.0)(VECTORS, POSITIONS, 64)
    halves = np.asarray(VECTORS[..., :4]) + 1j * np.asarray(VECTORS[..., 4:])
    angles = np.asarray(POSITIONS)[:, :, None, None] * 100.0 ** (-np.arange(4) / 4)
    expected = halves * np.exp(1j * angles)
    np.testing.assert_allclose(turned, np.concatenate([expected.real, expected.imag], -1), atol=1e-5)


def test_linear_scaling_is_interpolation_of_positions():
    scaled = Rotary(100.0, LinearScaling(4.0))(VECTORS, 4 * POSITIONS, 64)
    np.testing.assert_allclose(scaled, Rotary(100.0)(VECTORS, POSITIONS, 64), atol=1e-5)


def test_llama3_keeps_short_and_stretches_long_wavelengths():
    # Turns in 64 tokens: 8, 4, 2.5, 1, 0.5.
    turns = jnp.asarray([8.0, 4.0, 2.5, 1.0, 0.5])
    frequencies = 2 * math.pi * turns / 64
    scaled = Llama3Scaling(8.0, 1.0, 4.0, 64)(frequencies, theta=100.0)
    # At 2.5 turns, half way between 1 and 4, the mean of both.
    np.testing.assert_allclose(scaled / frequencies, [1, 1, (1 + 1 / 8) / 2, 1 / 8, 1 / 8], rtol=1e-5)


def test_yarn_keeps_the_first_frequencies_and_stretches_the_last():
    # With base e^4 and 8 frequencies, index i turns 100 e^(-i/2) / 2 pi times in 100 tokens.
    frequencies = jnp.exp(-jnp.arange(8) / 2)
    fast, slow = (100 * math.exp(-index / 2) / (2 * math.pi) for index in (2, 6))
    scaled = YarnScaling(4.0, 100, fast, slow, truncate=False)(frequencies, theta=math.exp(4))
    kept = np.clip(1 - (np.arange(8) - 2) / 4, 0, 1)
    np.testing.assert_allclose(scaled / frequencies, kept + (1 - kept) / 4, rtol=1e-4)
    assert YarnScaling(1.0, 100).magnitude == 1
    assert YarnScaling(4.0, 100, attention_factor=1.5).magnitude == 1.5
    longer = Rotary(100.0, YarnScaling(4.0, 100))(VECTORS, 0 * POSITIONS, 64)
    np.testing.assert_allclose(longer, VECTORS * (0.1 * math.log(4) + 1), rtol=1e-5)
