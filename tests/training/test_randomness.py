import itertools

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.rollouts.randomness import stream

SEEDS, STEPS, NAMES = (0, 1, 7, 2**31 - 1), (0, 1, 2, 1000), ("parameters", "prompts", "sampling")


def bits(key):
    return np.asarray(jax.random.key_data(key)).tolist()


def test_every_seed_step_and_name_has_its_own_stream():
    keys = [bits(stream(*which)) for which in itertools.product(SEEDS, STEPS, NAMES)]
    assert len(set(map(tuple, keys))) == len(SEEDS) * len(STEPS) * len(NAMES)


def test_the_same_stream_is_found_again_also_from_traced_values():
    traced = jax.jit(stream, static_argnames="name")
    mapped = jax.vmap(lambda seed: stream(seed, 3, "sampling"))(jnp.asarray(SEEDS))
    for seed, expected in zip(SEEDS, mapped, strict=True):
        assert bits(stream(seed, 3, "sampling")) == bits(expected)
        assert bits(traced(seed, 3, name="sampling")) == bits(expected)
        assert bits(stream(jnp.int32(seed), np.int64(3), "sampling")) == bits(expected)


def test_a_stream_stays_what_it_was():
    """A change here would break the resumption of every run that was begun before it."""
    assert bits(stream(0, 0, "sampling")) == [2484284111, 1340470047]
