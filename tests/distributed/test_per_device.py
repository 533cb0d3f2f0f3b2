"""Devices that work apart compute what the compiler would divide among them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from ipsrl.distributed.mesh import make_mesh, prompt_devices
from ipsrl.distributed.per_device import max_over_devices, per_device, sum_over_devices, works_per_device

pytestmark = pytest.mark.eight_devices

PROMPTS = 16


def summary(scale, values):
    """From `[3, P]`: each value scaled, the number of devices that the function sees, and totals over all prompts."""
    totals = sum_over_devices(values.sum(axis=1)), max_over_devices(values.max())
    return scale * values, jnp.full(values.shape[1], prompt_devices()), totals


def run(mesh, values):
    def each(scale, values):
        scaled, devices, _ = summary(scale, values)
        return scaled, devices[None]

    def all_together(scale, values):
        return summary(scale, values)[2]

    prompts = values.shape[1]
    with jax.set_mesh(mesh):
        return jax.jit(
            lambda values: (
                per_device(each, prompts, (None, 1), 1)(2.0, values),
                per_device(all_together, prompts, (None, 1), None)(2.0, values),
            )
        )(values)


@pytest.mark.parametrize(
    ("mesh", "prompts", "known"),
    [
        ("data:8", PROMPTS, 1),
        ("data:8,model:1", PROMPTS, 1),
        ("data:4,model:2", PROMPTS, 4),
        ("replica:8", PROMPTS, 1),
        ("data:8", 12, 8),
    ],
)
def test_the_result_is_that_of_one_device(mesh, prompts, known):
    values = np.arange(3 * prompts, dtype=np.float32).reshape(3, prompts)
    (scaled, devices), (sums, largest) = run(make_mesh(mesh), values)
    np.testing.assert_array_equal(scaled, 2 * values)
    np.testing.assert_array_equal(devices, np.full((1, prompts), known))
    np.testing.assert_array_equal(sums, values.sum(axis=1))
    assert largest == values.max()


def test_one_device_works_as_it_is():
    with jax.set_mesh(Mesh(jax.devices()[:1], ("data",))):
        assert not works_per_device(PROMPTS)
        assert per_device(summary, PROMPTS, (None, 1), 1) is summary
    assert not works_per_device(PROMPTS)
