"""Products of activations and matrices, with operands that may be bfloat16 and sums in float32."""

import functools

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.layout import Layout, with_layout_constraint

from ipsrl.distributed.mesh import is_whole_cpu_program, platform


def activation_dtype(dtype: str) -> str:
    """Type of activations between products with operands of a type: that type, but float32 on CPU.

    XLA on CPU rounds an array three times as slowly as it copies one, and rounds after every operation.
    """
    return "float32" if platform() == "cpu" else dtype


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def matrix_product(inputs: Array, kernel: Array, dtype: str, output_dtype: str, in_axis: int = 0) -> Array:
    """inputs kernel, `[..., in]` by `[in, out]`: both rounded to `dtype`, their products summed in float32.

    The gradient by the kernel is such a sum too, and is not rounded for a float32 kernel. A kernel is never transposed.

    Args:
      inputs, kernel: of any floating type; their gradients have the same type.
      dtype: of the operands, in the backward pass as well.
      output_dtype: of the result.
      in_axis: 1 for a kernel `[out, in]`, such as token embeddings that give the logits.
    """
    return _forward(inputs, kernel, dtype, output_dtype, in_axis)[0]


def _forward(inputs, kernel, dtype, output_dtype, in_axis):
    rounded = inputs.astype(dtype)
    product = _dot(_rows(rounded), kernel.astype(dtype), output_dtype, in_axis)
    # An array without elements, to carry the dtype of the inputs.
    return product.reshape(*inputs.shape[:-1], kernel.shape[1 - in_axis]), (rounded, kernel, jnp.zeros(0, inputs.dtype))


def _backward(dtype, output_dtype, in_axis, residuals, gradient):
    inputs, kernel, typed = residuals
    of_inputs, of_outputs = _rows(inputs), _rows(gradient.astype(dtype))
    by_inputs = _dot(of_outputs, kernel.astype(dtype), typed.dtype, 1 - in_axis)
    left, right = (of_outputs, of_inputs) if in_axis else (of_inputs, of_outputs)
    return by_inputs.reshape(inputs.shape), _dot(left.T, right, kernel.dtype)


matrix_product.defvjp(_forward, _backward)


@jax.custom_vjp
def scaled(inputs: Array, scale: Array) -> Array:
    """inputs times scale, `[..., n]` and `[n]`, in the inputs' type; the gradient of the scale is a float32 sum."""
    return inputs * scale.astype(inputs.dtype)


def _scaled_backward(residuals, gradient):
    inputs, scale = residuals
    return gradient * scale.astype(inputs.dtype), _sum_of_rows(gradient * inputs).astype(scale.dtype)


scaled.defvjp(lambda inputs, scale: (scaled(inputs, scale), (inputs, scale)), _scaled_backward)


@jax.custom_vjp
def shifted(inputs: Array, bias: Array) -> Array:
    """inputs plus bias, `[..., n]` and `[n]`, in the inputs' type; the gradient of the bias is a float32 sum."""
    return inputs + bias.astype(inputs.dtype)


shifted.defvjp(
    lambda inputs, bias: (shifted(inputs, bias), jnp.zeros(0, bias.dtype)),
    lambda typed, gradient: (gradient, _sum_of_rows(gradient).astype(typed.dtype)),
)


def _sum_of_rows(array: Array) -> Array:
    """`[..., n]` -> `[n]` float32 sums, by a product with ones: XLA's own take a tenth of a gradient's time on CPU."""
    rows = _rows(array)
    # Without this, accelerators would round float32 operands.
    return _dot(jnp.ones((1, len(rows)), rows.dtype), rows, "float32", precision="highest")[0]


def _rows(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


def _dot(left: Array, right: Array, dtype: str, right_axis: int = 0, precision: str | None = None) -> Array:
    """The product of two matrices in a type, over axis 1 of the left one, with sums in float32 on each device."""
    # Accelerators round the result themselves, which halves the communication of a sum over devices.
    product_dtype = "float32" if platform() == "cpu" else dtype
    factors = _row_by_row(left), _row_by_row(right)
    axes = (((1,), (right_axis,)), ((), ()))
    product = jax.lax.dot_general(*factors, axes, precision=precision, preferred_element_type=product_dtype)
    return _row_by_row(product).astype(dtype)


def _row_by_row(matrix: Array) -> Array:
    """Fixes a row-major layout on a CPU, where XLA would otherwise transpose operands and results.

    In this layout it multiplies bfloat16 twice as fast as float32; other layouts are converted to float32 first. Not
    used when XLA partitions the program over devices: a fixed layout would force a gather.
    """
    if is_whole_cpu_program():
        return with_layout_constraint(matrix, Layout(major_to_minor=(0, 1)))
    return matrix
