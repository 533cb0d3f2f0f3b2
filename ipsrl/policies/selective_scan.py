"""The recurrence of a selective state-space model (Mamba, arXiv 2312.00752), with a gradient of its own.

All states of a text, `[T, D, N]` for each sequence, would be by far the largest array of a step. So texts are read in
chunks: forward and backward pass have the states of one chunk at a time, and only the first of each is stored. The
gradient is written by hand because XLA on CPU takes more than twice as long for the one that JAX derives.
"""

import functools

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.distributed.mesh import platform


@functools.partial(jax.custom_vjp, nondiff_argnums=(6,))
def selective_scan(
    rates: Array, steps: Array, inputs: Array, write: Array, read: Array, state: Array, chunk: int
) -> tuple[Array, Array]:
    """y_t = C_t h_t, of h_t = exp(d_t A) h_(t-1) + d_t u_t B_t, and the last h.

    Args:
      rates: `[D, N]`, A.
      steps, inputs: `[..., T, D]`, d and u. Where d is 0, the state stays as it is.
      write, read: `[..., T, N]`, B and C.
      state: `[..., D, N]`, before the first token.
      chunk: number of tokens whose states exist at the same time; changes memory, time and rounding only.

    Returns:
      `[..., T, D]` and `[..., D, N]`.
    """
    return _forward(rates, steps, inputs, write, read, state, chunk)[0]


def _forward(rates, steps, inputs, write, read, state, chunk):
    chunks = [_chunks(array, chunk) for array in (steps, steps * inputs, write, read)]

    def one(state, arrays):
        steps, written, write, read = arrays
        _, states = _states(rates, steps, written, write, state)
        return states[-1], (jnp.einsum("t...dn,t...n->t...d", states, read), state)

    last, (outputs, first_states) = jax.lax.scan(one, state, chunks)
    return (_joined(outputs, steps), last), (rates, steps, inputs, write, read, first_states)


def _backward(chunk, residuals, gradients):
    rates, steps, inputs, write, read, first_states = residuals
    of_outputs, of_last = gradients
    chunks = [_chunks(array, chunk) for array in (steps, steps * inputs, write, read, of_outputs)]

    def one(carry, arrays):
        # `beyond` is the gradient by the last state of this chunk through all later ones.
        beyond, of_rates = carry
        (steps, written, write, read, of_outputs), first = arrays
        decays, states = _states(rates, steps, written, write, first)
        direct = of_outputs[..., None] * read[..., None, :]
        of_kept = _recurrence(decays, decays * direct, beyond, reverse=True)
        of_states = direct + jnp.concatenate([of_kept[1:], beyond[None]])
        of_exponents = of_kept * jnp.concatenate([first[None], states[:-1]])
        of_rates += (of_exponents * steps[..., None]).sum(axis=tuple(range(steps.ndim - 1)))
        found = (
            # A product, because XLA on CPU takes three times as long to add up the last axis.
            jnp.einsum("t...dn,n->t...d", of_exponents * rates, jnp.ones(rates.shape[-1])),
            jnp.einsum("t...dn,t...n->t...d", of_states, write),
            jnp.einsum("t...dn,t...d->t...n", of_states, written),
            jnp.einsum("t...dn,t...d->t...n", states, of_outputs),
        )
        return (of_kept[0], of_rates), found

    (of_first, of_rates), found = jax.lax.scan(
        one, (of_last, jnp.zeros_like(rates)), (chunks, first_states), reverse=True
    )
    of_exponents, of_written, of_write, of_read = (_joined(array, steps) for array in found)
    return of_rates, of_exponents + of_written * inputs, of_written * steps, of_write, of_read, of_first


selective_scan.defvjp(_forward, _backward)


def _states(rates: Array, steps: Array, written: Array, write: Array, state: Array) -> tuple[Array, Array]:
    """The decays exp(d A) of a chunk `[t, ..., D, N]`, and its states."""
    decays = jnp.exp(steps[..., None] * rates)
    return decays, _recurrence(decays, written[..., None] * write[..., None, :], state)


def _recurrence(decays: Array, added: Array, first: Array, reverse: bool = False) -> Array:
    """h_t = a_t h_(t-1) + b_t along axis 0, from `first`; h_t = a_t h_(t+1) + b_t in reverse."""
    if platform() == "cpu":

        def one(state: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            state = _then(state, now)
            return state, state

        return jax.lax.scan(one, first, (decays, added), reverse=reverse)[1]
    kept, states = jax.lax.associative_scan(
        lambda one, other: (one[0] * other[0], _then(one[1], other)), (decays, added), reverse=reverse
    )
    return kept * first + states


def _then(state: Array, now: tuple[Array, Array]) -> Array:
    return now[0] * state + now[1]


def _chunks(array: Array, chunk: int) -> Array:
    """`[..., T, X]` -> `[chunks, t, ..., X]`; the last chunk is filled with zeros, so with steps of no length."""
    array = jnp.moveaxis(array, -2, 0)
    number = -(-len(array) // chunk)
    padded = jnp.pad(array, [(0, number * chunk - len(array))] + [(0, 0)] * (array.ndim - 1))
    return padded.reshape(number, chunk, *array.shape[1:])


def _joined(chunks: Array, like: Array) -> Array:
    """`[chunks, t, ..., X]` -> `[..., T, X]`, with T as in another array."""
    number, size, *shape = chunks.shape
    return jnp.moveaxis(chunks.reshape(number * size, *shape)[: like.shape[-2]], 0, -2)
