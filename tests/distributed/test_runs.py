"""Runs that are divided among devices are the runs of one device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.distributed.per_device import sum_over_devices
from ipsrl.distributed.runs import filled, over_runs, runs_mesh

pytestmark = pytest.mark.eight_devices


def walk(seed, scale):
    """Random steps until one is large: how many, and their sum. No run takes as many as another."""

    def step(carry):
        taken, total, key, _ = carry
        key, drawn = jax.random.split(key)
        drawn = jax.random.normal(drawn)
        return taken + 1, total + scale * sum_over_devices(drawn), key, jnp.abs(drawn) > 1.5

    return jax.lax.while_loop(lambda carry: ~carry[3], step, (0, 0.0, jax.random.key(seed), False))[:2]


def walks(runs, block=None):
    each = filled(runs, block or 1)
    found = jax.jit(over_runs(walk, block))(jnp.asarray(each), jnp.linspace(1.0, 2.0, 40)[each])
    return jax.tree.map(lambda leaf: leaf[:runs], jax.device_get(found))


def test_the_last_run_fills_up():
    assert filled(3).tolist() == [0, 1, 2]
    assert filled(3, block=2).tolist() == [0, 1, 2, 2]
    with jax.set_mesh(runs_mesh()):
        assert filled(8).tolist() == list(range(8))
        assert filled(9, block=3).tolist() == [*range(9), *[8] * 15]


@pytest.mark.parametrize(("runs", "block"), [(1, None), (19, None), (5, 3)])
def test_runs_on_eight_devices_are_those_on_one(runs, block):
    alone = walks(runs)
    with jax.set_mesh(runs_mesh()):
        divided = walks(runs, block)
    np.testing.assert_array_equal(divided[0], alone[0])
    np.testing.assert_allclose(divided[1], alone[1], rtol=1e-6)


def test_with_blocks_a_run_has_the_same_bits_however_many_others_there_are():
    whole = walks(40, block=4)
    assert len(set(whole[0].tolist())) > 3
    for runs in (1, 39):
        for few, many in zip(walks(runs, block=4), whole, strict=True):
            np.testing.assert_array_equal(few, many[:runs])


def test_runs_that_cannot_be_divided_are_refused():
    with pytest.raises(ValueError, match="5 runs cannot be divided into blocks of 2 over 1 devices"):
        over_runs(walk, 2)(jnp.arange(5), jnp.ones(5))
    with jax.set_mesh(runs_mesh()), pytest.raises(ValueError, match="into blocks of 1 over 8 devices"):
        over_runs(walk)(jnp.arange(5), jnp.ones(5))


def test_devices_exchange_nothing():
    with jax.set_mesh(runs_mesh()):
        program = jax.jit(over_runs(walk)).lower(jnp.arange(16), jnp.ones(16)).compile().as_text()
        result = jax.jit(over_runs(walk))(jnp.arange(16), jnp.ones(16))[1]
    assert not [name for name in ("all-reduce", "all-gather", "all-to-all", "collective-permute") if name in program]
    assert {shard.data.shape for shard in result.addressable_shards} == {(2,)}
