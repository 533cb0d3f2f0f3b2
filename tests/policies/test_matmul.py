"""Products, scales and shifts equal their plain forms, in value and gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.policies.matmul import matrix_product, scaled, shifted

INPUTS, KERNEL, COTANGENT = (
    jax.random.normal(jax.random.key(number), shape) for number, shape in enumerate(((2, 3, 5), (5, 7), (2, 3, 7)))
)
VECTOR = jax.random.normal(jax.random.key(3), (5,))


def value_and_gradients(function, cotangent, *arguments):
    value, pull = jax.vjp(function, *arguments)
    return value, *pull(cotangent.astype(value.dtype))


def plain_product(inputs, kernel):
    return jnp.einsum("pni,io->pno", inputs, kernel, precision="highest")


def test_in_float32_a_product_is_the_plain_one():
    ours = value_and_gradients(
        lambda inputs, kernel: matrix_product(inputs, kernel, "float32", "float32"), COTANGENT, INPUTS, KERNEL
    )
    plain = value_and_gradients(plain_product, COTANGENT, INPUTS, KERNEL)
    for one, other in zip(ours, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("output", ["bfloat16", "float32"])
def test_in_bfloat16_only_factors_are_rounded(output):
    """The gradient of the kernel is a float32 sum of products of rounded factors."""
    found = value_and_gradients(
        lambda inputs, kernel: matrix_product(inputs, kernel, "bfloat16", output), COTANGENT, INPUTS, KERNEL
    )
    assert [array.dtype for array in found] == [jnp.dtype(output), jnp.float32, jnp.float32]
    rounded = [array.astype("bfloat16").astype(jnp.float32) for array in (COTANGENT, INPUTS, KERNEL)]
    value, by_inputs, by_kernel = value_and_gradients(plain_product, *rounded)
    np.testing.assert_allclose(found[0], value.astype(output), rtol=1e-2 if output == "bfloat16" else 1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], by_inputs, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[2], by_kernel, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("ours", "plain"), [(scaled, lambda inputs, scale: inputs * scale), (shifted, lambda inputs, bias: inputs + bias)]
)
def test_scales_and_shifts_are_the_plain_ones(ours, plain):
    cotangent = INPUTS[::-1]
    found, expected = (value_and_gradients(function, cotangent, INPUTS, VECTOR) for function in (ours, plain))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_kernel_may_be_stored_the_other_way(dtype):
    ours = value_and_gradients(
        lambda inputs, kernel: matrix_product(inputs, kernel, dtype, "float32", in_axis=1), COTANGENT, INPUTS, KERNEL.T
    )
    value, by_inputs, by_kernel = value_and_gradients(
        lambda inputs, kernel: matrix_product(inputs, kernel, dtype, "float32"), COTANGENT, INPUTS, KERNEL
    )
    for one, other in zip(ours, (value, by_inputs, by_kernel.T), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
