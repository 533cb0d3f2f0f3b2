"""Values accepted where an annotation asks for an array; see `ipsrl.checking.arguments`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ipsrl.checking.arguments import REFUSED, Allowed


def is_number(value: Any) -> bool:
    """Whether an array holds one finite number, as far as it is known."""
    if not isinstance(value, np.ndarray | jax.Array) or value.ndim > 0 or value.dtype == bool:
        return False
    return isinstance(value, Tracer) or HOST_ARRAY.holds(value)


def _on_host(value: Any) -> Any:
    try:
        array = np.asarray(value)
        # Types of 8 and 16 bits that NumPy does not have.
        if array.dtype.kind == "V" and jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(np.float32)
        return array if array.dtype.kind in "biuf" and np.isfinite(array).all() else REFUSED
    # Rows of other lengths, or nested too deeply; objects that are no numbers.
    except (ValueError, TypeError, RecursionError):
        return REFUSED


def _on_device(value: Any) -> Any:
    # Keys of random numbers are arrays as well.
    if isinstance(value, jax.Array):
        return value
    if isinstance(value, list | tuple) and any(isinstance(item, jax.Array) for item in value):
        return jnp.asarray(value)
    if not isinstance(value, np.ndarray | np.generic | int | float | list | tuple):
        return REFUSED
    try:
        array = np.asarray(value)
    except (ValueError, RecursionError):
        return REFUSED
    if array.dtype.kind not in "biuf" and not jnp.issubdtype(array.dtype, jnp.floating):
        return REFUSED
    # JAX would cut them to 32 bits, so that different ids became the same.
    if array.dtype.kind in "iu" and (array != array.astype(jax.dtypes.canonicalize_dtype(array.dtype))).any():
        return REFUSED
    return jnp.asarray(array) if isinstance(value, list | tuple) else value


HOST_ARRAY = Allowed("an array of finite numbers", _on_host)
DEVICE_ARRAY = Allowed("an array of numbers, whole ones within 32 bits", _on_device)
