"""Grouped-query attention for groups of sequences that share a prompt.

Every query of a group attends to two sets of keys under one softmax: those of the prompt, stored once per prompt
however large its group, and those of its own sequence. The keys a query may attend to follow from positions alone, so
causality, padding and sliding windows are one condition.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

# Position of keys that no query may attend to: padding.
UNREACHABLE = np.iinfo(np.int32).max


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class KeyValues:
    """Keys (already rotated) and values of one layer: `[P, K, N, d]` of prompts, `[P, K, G, N, d]` of groups.

    K is the number of key-value heads, N the number of tokens. Heads precede groups and tokens so that both products of
    the attention are plain batched matrix products, without a transposition.
    """

    keys: Array
    values: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Positions:
    """Positions of queries and keys in the text of prompt and answer, int32.

    Attributes:
      queries: `[P, S]`, the same for all of a group, or `[P, G, S]`; -1 on padding, which attends to nothing.
      prompt: `[P, L]`, of the prompt's keys; `UNREACHABLE` on padding.
      own: `[P, N]`, of the keys of the sequence itself; `UNREACHABLE` on padding.
    """

    queries: Array
    prompt: Array
    own: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NextTokens:
    """Decoding view of one layer: the next token of each sequence attends to its prompt and the tokens before it.

    Attributes:
      prompt: `[P, K, L, d]`.
      own: `[P, K, G, T, d]`, filled up to `column`.
      column: `[]` or `[P, G]` int32, where keys and values of the new token are written.
      positions: of the query, the prompt and the T own keys.
    """

    prompt: KeyValues
    own: KeyValues
    column: Array
    positions: Positions

    @property
    def most_tokens(self) -> int:
        """L + T, an upper bound on all positions."""
        return self.prompt.keys.shape[2] + self.own.keys.shape[3]

    @property
    def query_positions(self) -> Array:
        """`[P, G]`, of the new tokens."""
        if self.positions.queries.ndim == 3:
            return self.positions.queries[..., 0]
        return jnp.repeat(self.positions.queries, self.own.keys.shape[2], axis=1)

    def attend(self, queries: Array, keys: Array, values: Array, **options) -> tuple[Array, KeyValues]:
        """`[P, G, H, d]` for new tokens `[P, G, heads, d]`, and the own keys and values including theirs."""

        def write(stored, new):
            new = new.swapaxes(1, 2)[:, :, :, None]
            if self.column.ndim == 0:
                return jax.lax.dynamic_update_slice_in_dim(stored, new, self.column, axis=3)
            here = jnp.arange(stored.shape[3]) == self.column[:, None, :, None]
            return jnp.where(here[..., None], new, stored)

        own = KeyValues(write(self.own.keys, keys), write(self.own.values, values))
        return attend(queries[:, :, None], self.prompt, own, self.positions, **options)[:, :, 0], own


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class WholeTexts:
    """Scoring view: prompts and the answers of their groups at once, the L tokens of a prompt, then G times T others.

    All matrices get the L + G T tokens of a prompt as one array, so that each matrix is read once.

    Attributes:
      prompt_mask: `[P, L]`, True on real tokens, which are right-aligned.
      group_size: G.
      length: T, of each answer.
    """

    prompt_mask: Array
    group_size: int = dataclasses.field(default=0, metadata={"static": True})
    length: int = dataclasses.field(default=0, metadata={"static": True})

    @property
    def most_tokens(self) -> int:
        """L + T, an upper bound on all positions."""
        return self.prompt_mask.shape[1] + self.length

    @property
    def _of_answers(self) -> Array:
        """`[P, T]`, the positions of an answer's tokens."""
        return self.prompt_mask.sum(axis=1, keepdims=True) + jnp.arange(self.length)

    @property
    def query_positions(self) -> Array:
        """`[P, L + G T]`."""
        return jnp.concatenate(
            [_query_positions(self.prompt_mask), jnp.tile(self._of_answers, (1, self.group_size))], axis=1
        )

    def attend(self, queries: Array, keys: Array, values: Array, **options) -> tuple[Array, KeyValues]:
        """`[P, L + G T, H, d]` for all tokens, and the keys and values of the prompts, `[P, K, L, d]`."""
        prompts, length = self.prompt_mask.shape
        of_prompt = KeyValues(*(array[:, :length].swapaxes(1, 2) for array in (keys, values)))
        parts = []
        if length or not self.group_size:
            nothing = KeyValues(*(array[:, :, :0] for array in (of_prompt.keys, of_prompt.values)))
            own = KeyValues(of_prompt.keys[:, :, None], of_prompt.values[:, :, None])
            mask = self.prompt_mask
            positions = Positions(_query_positions(mask), key_positions(mask[:, :0]), key_positions(mask))
            parts.append(attend(queries[:, None, :length], nothing, own, positions, **options)[:, 0])
        if self.group_size:

            def answers(array):
                return array[:, length:].reshape(prompts, self.group_size, self.length, *array.shape[2:])

            own = KeyValues(*(answers(array).transpose(0, 3, 1, 2, 4) for array in (keys, values)))
            positions = Positions(self._of_answers, key_positions(self.prompt_mask), self._of_answers)
            attended = attend(answers(queries), of_prompt, own, positions, **options)
            parts.append(attended.reshape(prompts, self.group_size * self.length, *attended.shape[3:]))
        return jnp.concatenate(parts, axis=1), of_prompt


def key_positions(mask: Array) -> Array:
    """`[P, L]` int32, positions of a prompt's tokens, from 0; `UNREACHABLE` on the padding before them."""
    return jnp.where(mask, _query_positions(mask), UNREACHABLE)


def _query_positions(mask: Array) -> Array:
    """Like `key_positions`, with -1 on the padding."""
    # A running sum of the mask gives the same, but is slow on CPU.
    padding = mask.shape[1] - mask.sum(axis=1, keepdims=True)
    return jnp.maximum(jnp.arange(mask.shape[1]) - padding, -1)


def attend(
    queries: Array,
    prompt: KeyValues,
    own: KeyValues,
    positions: Positions,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    block: int = 256,
) -> Array:
    """softmax(scale * q k) v over the tokens of the prompt and of the sequence itself together.

    A query at position i attends to keys at positions j with i - window < j <= i. Logits and softmax are float32. A
    query without any key gets a finite mean of values, not NaN. Queries, keys and values have one type.

    At most `block` queries of a sequence are computed at a time, and their weights are recomputed for the gradient:
    memory grows with block * (L + N), not with S * (L + N).

    Args:
      queries: `[P, G, S, H, d]`, H a multiple of the number of key-value heads; neighbouring heads share keys.
      prompt: `[P, K, L, d]`, never repeated G times. L may be 0.
      own: `[P, K, G, N, d]`.
      positions: of queries and keys.
      scale: of the logits, 1 / sqrt(d) in most models.
      window: number of tokens a query attends to, itself included; None for all.
      soft_cap: logits become cap * tanh(logits / cap) (arXiv 2408.00118); None for no cap.
      block: maximum number of queries of one sequence whose logits exist at the same time.

    Returns:
      `[P, G, S, H, d]`, of the dtype of `queries`.
    """
    some = functools.partial(
        _attend, prompt=prompt, own=own, positions=positions, scale=scale, window=window, soft_cap=soft_cap
    )
    length = queries.shape[2]
    if length <= block:
        return some(queries, positions.queries)
    # Blocks of equal size need less padding than full blocks and a short last one.
    blocks = -(-length // block)
    size = -(-length // blocks)

    def split(array: Array, axis: int, fill: int) -> Array:
        widths = [(0, 0)] * array.ndim
        widths[axis] = (0, blocks * size - length)
        padded = jnp.pad(array, widths, constant_values=fill)
        return jnp.moveaxis(padded.reshape(*array.shape[:axis], blocks, size, *array.shape[axis + 1 :]), axis, 0)

    attended = jax.lax.map(
        lambda part: jax.checkpoint(some, prevent_cse=False)(*part),
        (split(queries, 2, 0), split(positions.queries, 1, -1)),
    )
    attended = jnp.moveaxis(attended, 0, 2)
    return attended.reshape(*queries.shape[:2], blocks * size, *queries.shape[3:])[:, :, :length]


def _attend(
    queries: Array,
    query_positions: Array,
    prompt: KeyValues,
    own: KeyValues,
    positions: Positions,
    scale: float,
    window: int | None,
    soft_cap: float | None,
) -> Array:
    num_prompts, group, length, heads, width = queries.shape
    # [P, 1, S] or [P, G, S].
    query_positions = query_positions if query_positions.ndim == 3 else query_positions[:, None]
    kv_heads = own.keys.shape[1]
    dtype = queries.dtype
    # [P, K, G, R, S, d]: R query heads for each key-value head.
    queries = queries.reshape(num_prompts, group, length, kv_heads, heads // kv_heads, width)
    queries = queries.transpose(0, 3, 1, 4, 2, 5)

    # The lowest finite number: a row of -inf would give NaN.
    lowest = jnp.finfo(jnp.float32).min

    def masked(logits: Array, key_positions: Array) -> Array:
        logits = logits * scale
        if soft_cap is not None:
            logits = soft_cap * jnp.tanh(logits / soft_cap)
        visible = key_positions[:, None, None] <= query_positions[..., None]
        if window is not None:
            visible &= query_positions[..., None] - key_positions[:, None, None] < window
        return jnp.where(visible[:, None, :, None], logits, lowest)

    to_prompt = jnp.einsum("pkgrsd,pkld->pkgrsl", queries, prompt.keys, preferred_element_type=jnp.float32)
    to_own = jnp.einsum("pkgrsd,pkgnd->pkgrsn", queries, own.keys, preferred_element_type=jnp.float32)
    to_prompt, to_own = masked(to_prompt, positions.prompt), masked(to_own, positions.own)

    # One softmax over both parts without concatenating them: division by the sum comes last.
    highest = jnp.maximum(
        to_prompt.max(axis=-1, keepdims=True, initial=lowest), to_own.max(axis=-1, keepdims=True, initial=lowest)
    )
    highest = jax.lax.stop_gradient(highest)  # it cancels
    prompt_weights, own_weights = jnp.exp(to_prompt - highest), jnp.exp(to_own - highest)
    total = prompt_weights.sum(axis=-1, keepdims=True) + own_weights.sum(axis=-1, keepdims=True)
    attended = jnp.einsum(
        "pkgrsl,pkld->pkgrsd", prompt_weights.astype(dtype), prompt.values, preferred_element_type=jnp.float32
    )
    attended += jnp.einsum(
        "pkgrsn,pkgnd->pkgrsd", own_weights.astype(dtype), own.values, preferred_element_type=jnp.float32
    )
    attended = (attended / total).astype(dtype)
    return attended.transpose(0, 2, 4, 1, 3, 5).reshape(num_prompts, group, length, heads, width)
