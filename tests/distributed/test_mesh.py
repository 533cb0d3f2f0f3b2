"""Meshes over eight CPU devices."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from ipsrl.distributed.mesh import make_mesh, replicate, shard_prompts

pytestmark = pytest.mark.eight_devices


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("data:-1", {"data": 8}),
        ("data:4,model:2", {"data": 4, "model": 2}),
        (" data:-1, model:2 ", {"data": 4, "model": 2}),
        ("data:8,model:-1", {"data": 8, "model": 1}),
    ],
)
def test_sizes(text, shape):
    mesh = make_mesh(text)
    assert dict(mesh.shape) == shape
    assert set(mesh.axis_types) == {AxisType.Auto}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data:3", "multiply to 3, which does not fit the 8 devices"),
        ("data:-1,model:16", "multiply to 16, which does not fit"),
        ("data:-1,model:-1", "2 axes of size -1"),
        ("date:8", r"unknown axis 'date' in mesh 'date:8': .* data \(prompts, and parameters at rest\), model "),
        ("data:4,data:2", "names the axis 'data' twice"),
        ("data:0", "positive sizes or -1"),
        ("data:two", "positive sizes or -1"),
    ],
)
def test_errors(text, message):
    with pytest.raises(ValueError, match=message):
        make_mesh(text)


def test_prompts_are_split_over_the_devices():
    mesh = make_mesh("data:-1")
    rewards = np.arange(48, dtype=np.float32).reshape(16, 3)
    placed = shard_prompts({"rewards": rewards, "index": jnp.arange(16)}, mesh)
    assert [shard.data.shape for shard in placed["rewards"].addressable_shards] == [(2, 3)] * 8
    assert placed["index"].addressable_shards[3].data.tolist() == [6, 7]


def test_a_number_of_prompts_that_does_not_divide_is_refused():
    message = (
        "^12 prompts cannot be split evenly over the 8 devices of mesh axis 'data': "
        "choose --prompts_per_step so that every micro-batch is a multiple of 8, or another --mesh$"
    )
    with pytest.raises(ValueError, match=message):
        shard_prompts(jnp.zeros((12, 2)), make_mesh("data:-1"))


def test_replication_and_meshes_without_a_data_axis():
    values = jnp.arange(3)
    for placed in (replicate(values, make_mesh("data:-1")), shard_prompts(values, make_mesh("model:8"))):
        assert [shard.data.tolist() for shard in placed.addressable_shards] == [[0, 1, 2]] * 8
