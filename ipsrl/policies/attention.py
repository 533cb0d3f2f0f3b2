"""Grouped-query attention with rotary positions, for groups of sequences that share a prompt.

Every query of a group attends to two sets of keys under one softmax: those of the prompt, which exist once for each
prompt however large its group is, and those of its own sequence.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class KeyValues:
    """Keys (already rotated) and values of one layer: `[P, K, N, d]` of prompts, `[P, K, G, N, d]` of groups.

    K is the number of key-value heads, N the number of tokens. Heads stand before groups and tokens because both
    products of the attention are then plain batched matrix products, without a transposition.
    """

    keys: Array
    values: Array


def rotate(vectors: Array, positions: Array, theta: float) -> Array:
    """Rotary position embedding (arXiv 2104.09864), with the two halves of a vector paired as in Llama.

    The pair (x_i, x_{i + d/2}) is turned by the angle position * theta^(-2i/d), so that a product of query and key
    depends on the difference of their positions only.

    Args:
      vectors: `[P, G, S, heads, d]`, d even.
      positions: `[P, S]` int32.
      theta: base of the wavelengths.
    """
    half = vectors.shape[-1] // 2
    frequencies = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = positions[:, None, :, None, None] * frequencies
    cosine, sine = jnp.cos(angles), jnp.sin(angles)
    first, second = jnp.split(vectors.astype(jnp.float32), 2, axis=-1)
    rotated = jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
    return rotated.astype(vectors.dtype)


def attend(queries: Array, prompt: KeyValues, prompt_mask: Array, own: KeyValues, own_mask: Array) -> Array:
    """softmax(q k / sqrt(d)) v over the tokens of the prompt and of the own sequence together.

    Logits and softmax are float32. A query that may see nothing gets a finite mean of values, not NaN.

    Args:
      queries: `[P, G, S, H, d]`, H a multiple of the number of key-value heads; neighbouring heads share keys.
      prompt: `[P, K, L, d]`, used as it stands: it is never repeated G times. L may be 0.
      prompt_mask: `[P, L]` bool, False on padding.
      own: `[P, K, G, N, d]`.
      own_mask: `[P or 1, S, N]` bool, which of its own tokens each query may see.

    Returns:
      `[P, G, S, H, d]`, of the dtype of `queries`.
    """
    num_prompts, group, length, heads, width = queries.shape
    kv_heads = own.keys.shape[1]
    # [P, K, G, R, S, d]: R query heads for each key-value head.
    queries = queries.reshape(num_prompts, group, length, kv_heads, heads // kv_heads, width)
    queries = queries.transpose(0, 3, 1, 4, 2, 5)

    to_prompt = jnp.einsum("pkgrsd,pkld->pkgrsl", queries, prompt.keys, preferred_element_type=jnp.float32)
    to_own = jnp.einsum("pkgrsd,pkgnd->pkgrsn", queries, own.keys, preferred_element_type=jnp.float32)
    # The lowest finite number, as a row of -inf would be NaN.
    lowest = jnp.finfo(jnp.float32).min
    to_prompt = jnp.where(prompt_mask[:, None, None, None, None, :], to_prompt * width**-0.5, lowest)
    to_own = jnp.where(own_mask[:, None, None, None, :, :], to_own * width**-0.5, lowest)

    # One softmax over both parts, without a concatenation of them: the division by its sum comes last.
    highest = jnp.maximum(
        to_prompt.max(axis=-1, keepdims=True, initial=lowest), to_own.max(axis=-1, keepdims=True, initial=lowest)
    )
    highest = jax.lax.stop_gradient(highest)  # it cancels
    prompt_weights, own_weights = jnp.exp(to_prompt - highest), jnp.exp(to_own - highest)
    total = prompt_weights.sum(axis=-1, keepdims=True) + own_weights.sum(axis=-1, keepdims=True)
    dtype = queries.dtype
    attended = jnp.einsum(
        "pkgrsl,pkld->pkgrsd", prompt_weights.astype(dtype), prompt.values, preferred_element_type=jnp.float32
    )
    attended += jnp.einsum(
        "pkgrsn,pkgnd->pkgrsd", own_weights.astype(dtype), own.values, preferred_element_type=jnp.float32
    )
    attended = (attended / total).astype(dtype)
    return attended.transpose(0, 2, 4, 1, 3, 5).reshape(num_prompts, group, length, heads, width)
