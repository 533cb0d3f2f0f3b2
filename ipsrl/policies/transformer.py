"""A decoder-only language model as a policy for text: observations are the tokens before each action.

RMSNorm (arXiv 1910.07467), rotary positions (arXiv 2104.09864), grouped-query attention (arXiv 2305.13245) and SwiGLU
(arXiv 2002.05202), with the parameter names of Llama and Qwen. A group shares its prompt: the prompt is read once, and
the completions attend to its keys and values where they are.

The last token of a prompt is the first observation. So the tokens before it are the prompt that is read ahead, and the
sequence of observations starts at the position of that last token.
"""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from ipsrl.policies.attention import KeyValues, attend, rotate
from ipsrl.policies.policy import Parameters, distribution, score_logits
from ipsrl.structures import PolicyScores, Prompts, Trajectories


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cache:
    """What `step` carries: K key-value heads of width d in each layer.

    Attributes:
      prompt: for each layer `[P, K, L - 1, d]`, the prompt without its last token.
      prompt_mask: `[P, L - 1]` bool, False on padding.
      first_position: `[P]` int32, position of the first observation.
      completion: for each layer `[P, K, G, T, d]`, of which the columns up to the current position are filled.
    """

    prompt: tuple[KeyValues, ...]
    prompt_mask: Array
    first_position: Array
    completion: tuple[KeyValues, ...]


@dataclasses.dataclass(frozen=True)
class Transformer:
    """Hyper-parameters of a decoder-only transformer, and its `Policy` interface.

    Parameters are a nested dict of float32 arrays, named as in Llama: `embed_tokens`, `layers` -> number ->
    `input_layernorm`, `self_attn` (`q_proj`, `k_proj`, `v_proj`, `o_proj`), `post_attention_layernorm`, `mlp`
    (`gate_proj`, `up_proj`, `down_proj`), then `norm`, and `lm_head` where embeddings are not tied. A `kernel` is
    `[in, out]`.

    Attributes:
      vocabulary_size: V, number of tokens, and of logits.
      hidden_size: width of the residual stream.
      num_layers: number of blocks.
      num_heads: number of query heads.
      num_key_value_heads: number of key-value heads, a divisor of `num_heads`.
      head_dim: width of a head, even; None for hidden_size / num_heads.
      intermediate_size: width of the SwiGLU; None for 8/3 hidden_size, rounded up to a multiple of 32.
      rope_theta: base of the wavelengths of the rotary positions.
      rms_norm_epsilon: added to the mean square.
      tie_embeddings: whether the logits are products with the token embeddings, instead of a matrix `lm_head`.
      dtype: what activations, keys and values are computed in, "float32" or "bfloat16"; the softmax and the logits
        are float32 in both.

    Raises:
      ValueError: a size is not positive, or sizes do not fit each other.
    """

    vocabulary_size: int
    hidden_size: int = 64
    num_layers: int = 2
    num_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int | None = None
    intermediate_size: int | None = None
    rope_theta: float = 10000.0
    rms_norm_epsilon: float = 1e-6
    tie_embeddings: bool = True
    dtype: str = "float32"

    optional_fields: ClassVar[frozenset[str]] = frozenset({"prompt_log_probs"})

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type in (int, int | None, float) and value is not None and value <= 0:
                raise ValueError(f"{field.name} is {value}, but must be positive.")
        if self.num_heads % self.num_key_value_heads:
            raise ValueError(f"num_key_value_heads {self.num_key_value_heads} must divide num_heads {self.num_heads}.")
        if self.head_dim is None and self.hidden_size % self.num_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} must be a multiple of num_heads {self.num_heads} if head_dim is None."
            )
        if self.head_width % 2:
            raise ValueError(f"A head is {self.head_width} wide, but rotary positions need an even width.")
        if self.dtype not in ("float32", "bfloat16"):
            raise ValueError(f'dtype is {self.dtype!r}, but must be "float32" or "bfloat16".')

    @property
    def head_width(self) -> int:
        """d, the width of a head."""
        return self.hidden_size // self.num_heads if self.head_dim is None else self.head_dim

    @property
    def intermediate_width(self) -> int:
        """The width of the SwiGLU."""
        if self.intermediate_size is None:
            return -(-8 * self.hidden_size // (3 * 32)) * 32
        return self.intermediate_size

    def init(self, key: Array) -> Parameters:
        """Fresh float32 parameters.

        Matrices are normal with variance 1 / inputs, and those that write to the residual stream are smaller by
        sqrt(2 num_layers), so that its variance does not grow with depth.
        """
        return nnx.to_pure_dict(nnx.state(Decoder(self, nnx.Rngs(key))))

    def start(self, parameters: Parameters, prompts: Prompts, group_size: int, max_tokens: int) -> Cache:
        """Reads all but the last token of each prompt, once, and makes room for `[P, group_size, max_tokens]` tokens.

        A prompt without tokens (L = 0) is allowed: its first observation stands at position 0.
        """
        tokens, mask = prompts.tokens[:, :-1], prompts.mask[:, :-1]
        _, prompt = self._read(parameters, tokens, mask)
        return Cache(
            prompt=tuple(KeyValues(layer.keys[:, :, 0], layer.values[:, :, 0]) for layer in prompt),
            prompt_mask=mask,
            first_position=mask.sum(axis=1),
            completion=self._empty((len(tokens), self.num_key_value_heads, group_size, max_tokens)),
        )

    def step(self, parameters: Parameters, cache: Cache, observations: Array, position: Array) -> tuple[Array, Cache]:
        """Logits `[P, G, V]` of action number `position`, after `observations` `[P, G]`, and the cache with them."""
        logits, cache = self._extend(parameters, cache, observations[:, :, None], position)
        return logits[:, :, 0], cache

    def score(self, parameters: Parameters, trajectories: Trajectories, temperature: float) -> PolicyScores:
        """Log-probabilities and entropies `[P, G, T]` of all sampled tokens, in one pass over the prompts and one over
        the completions; the same computation as `step`, with T observations in place of one.

        Raises:
          ValueError: `observations` are not `[P, G, T]` for the P prompts.
        """
        observations, prompts = trajectories.observations, trajectories.prompts
        if observations.ndim != 3 or observations.shape[0] != prompts.tokens.shape[0]:
            raise ValueError(
                f"observations {observations.shape} must be [P, G, T] for the {prompts.tokens.shape[0]} prompts."
            )
        _, group_size, max_tokens = observations.shape
        cache = self.start(parameters, prompts, group_size, max_tokens)
        logits, _ = self._extend(parameters, cache, observations, 0)
        return score_logits(logits, trajectories, temperature)

    def prompt_log_probs(self, parameters: Parameters, prompts: Prompts, temperature: float) -> tuple[Array, Array]:
        """Log-probability of each prompt token given those before it, under the full vocabulary at the temperature.

        Returns:
          `[P, L]` float32 log-probabilities, 0 where they mean nothing, and the `[P, L]` bool mask of where they mean
          something: not on padding, and not on the first token.
        """
        hidden, _ = self._read(parameters, prompts.tokens, prompts.mask)
        logits = self._decoder(parameters).logits(hidden[:, 0, :-1])
        log_probs = distribution(logits, None, temperature)
        following = jnp.take_along_axis(log_probs, prompts.tokens[:, 1:, None], axis=-1)[..., 0]
        mask = prompts.mask[:, 1:] & prompts.mask[:, :-1]
        first_column = ((0, 0), (prompts.tokens.shape[1] - mask.shape[1], 0))
        return jnp.pad(jnp.where(mask, following, 0.0), first_column), jnp.pad(mask, first_column)

    def _decoder(self, parameters: Parameters) -> "Decoder":
        return nnx.merge(_graph(self), parameters)

    def _empty(self, shape: tuple[int, ...]) -> tuple[KeyValues, ...]:
        """Key-values of every layer, `[*shape, d]`, not yet filled."""
        zeros = jnp.zeros((*shape, self.head_width), self.dtype)
        return tuple(KeyValues(zeros, zeros) for _ in range(self.num_layers))

    def _read(self, parameters: Parameters, tokens: Array, mask: Array) -> tuple[Array, tuple[KeyValues, ...]]:
        """Hidden states `[P, 1, L, hidden]` and key-values of prompts: groups of one, with nothing before them."""
        num_prompts, length = tokens.shape
        causal = jnp.tri(length, dtype=bool)
        return self._decoder(parameters)(
            tokens=tokens[:, None],
            positions=jnp.cumsum(mask, axis=1) - 1,
            prompt=self._empty((num_prompts, self.num_key_value_heads, 0)),
            prompt_mask=mask[:, :0],
            own=self._empty((num_prompts, self.num_key_value_heads, 1, length)),
            own_mask=causal & mask[:, None, :],
            offset=0,
        )

    def _extend(
        self, parameters: Parameters, cache: Cache, observations: Array, offset: Array | int
    ) -> tuple[Array, Cache]:
        """Logits `[P, G, S, V]` after the observations `[P, G, S]`, which follow `offset` earlier ones."""
        decoder = self._decoder(parameters)
        columns = offset + jnp.arange(observations.shape[2])
        capacity = cache.completion[0].keys.shape[3]
        hidden, completion = decoder(
            tokens=observations,
            positions=cache.first_position[:, None] + columns,
            prompt=cache.prompt,
            prompt_mask=cache.prompt_mask,
            own=cache.completion,
            own_mask=(jnp.arange(capacity) <= columns[:, None])[None],
            offset=offset,
        )
        return decoder.logits(hidden), dataclasses.replace(cache, completion=completion)


@functools.cache
def _graph(policy: Transformer) -> nnx.GraphDef:
    """The structure of the modules without their arrays, so that no trace ever builds them again."""
    return nnx.graphdef(nnx.eval_shape(lambda: Decoder(policy, nnx.Rngs(0))))


class Decoder(nnx.Module):
    """Token embeddings, blocks, and the last norm."""

    def __init__(self, policy: Transformer, rngs: nnx.Rngs):
        self.embed_tokens = nnx.Embed(
            policy.vocabulary_size,
            policy.hidden_size,
            dtype=policy.dtype,
            embedding_init=nnx.initializers.normal(policy.hidden_size**-0.5),
            rngs=rngs,
        )
        self.layers = nnx.List([DecoderLayer(policy, rngs) for _ in range(policy.num_layers)])
        self.norm = RMSNorm(policy)
        if not policy.tie_embeddings:
            self.lm_head = _linear(policy, policy.hidden_size, policy.vocabulary_size, rngs)
        self.dtype = policy.dtype
        self.tie_embeddings = policy.tie_embeddings

    def __call__(
        self,
        tokens: Array,
        positions: Array,
        prompt: tuple[KeyValues, ...],
        prompt_mask: Array,
        own: tuple[KeyValues, ...],
        own_mask: Array,
        offset: Array | int,
    ) -> tuple[Array, tuple[KeyValues, ...]]:
        """Hidden states `[P, G, S, hidden]` of `tokens` `[P, G, S]` at `positions` `[P, S]`, and `own` with their
        key-values in the columns from `offset` on. The masks are those of `attend`."""
        hidden = self.embed_tokens(tokens)
        filled = []
        for layer, layer_prompt, layer_own in zip(self.layers, prompt, own, strict=True):
            hidden, layer_own = layer(hidden, positions, layer_prompt, prompt_mask, layer_own, own_mask, offset)
            filled.append(layer_own)
        return self.norm(hidden), tuple(filled)

    def logits(self, hidden: Array) -> Array:
        """Float32 logits `[..., V]`; in bfloat16 only the factors are rounded, not their sums."""
        kernel = self.embed_tokens.embedding[...].T if self.tie_embeddings else self.lm_head.kernel[...]
        return jnp.dot(hidden, kernel.astype(self.dtype), preferred_element_type=jnp.float32)


class DecoderLayer(nnx.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, policy: Transformer, rngs: nnx.Rngs):
        self.input_layernorm = RMSNorm(policy)
        self.self_attn = Attention(policy, rngs)
        self.post_attention_layernorm = RMSNorm(policy)
        self.mlp = GatedMLP(policy, rngs)

    def __call__(
        self,
        hidden: Array,
        positions: Array,
        prompt: KeyValues,
        prompt_mask: Array,
        own: KeyValues,
        own_mask: Array,
        offset: Array | int,
    ) -> tuple[Array, KeyValues]:
        attended, own = self.self_attn(
            self.input_layernorm(hidden), positions, prompt, prompt_mask, own, own_mask, offset
        )
        hidden += attended
        return hidden + self.mlp(self.post_attention_layernorm(hidden)), own


class Attention(nnx.Module):
    """Projections around `attend`, and the filling of the cache."""

    def __init__(self, policy: Transformer, rngs: nnx.Rngs):
        query_width = policy.num_heads * policy.head_width
        key_value_width = policy.num_key_value_heads * policy.head_width
        self.q_proj = _linear(policy, policy.hidden_size, query_width, rngs)
        self.k_proj = _linear(policy, policy.hidden_size, key_value_width, rngs)
        self.v_proj = _linear(policy, policy.hidden_size, key_value_width, rngs)
        self.o_proj = _linear(policy, query_width, policy.hidden_size, rngs, _residual_scale(policy))
        self.head_width = policy.head_width
        self.rope_theta = policy.rope_theta

    def __call__(
        self,
        hidden: Array,
        positions: Array,
        prompt: KeyValues,
        prompt_mask: Array,
        own: KeyValues,
        own_mask: Array,
        offset: Array | int,
    ) -> tuple[Array, KeyValues]:
        queries = rotate(self._heads(self.q_proj(hidden)), positions, self.rope_theta)
        keys = rotate(self._heads(self.k_proj(hidden)), positions, self.rope_theta)
        values = self._heads(self.v_proj(hidden))
        own = KeyValues(_write(own.keys, keys, offset), _write(own.values, values, offset))
        attended = attend(queries, prompt, prompt_mask, own, own_mask)
        return self.o_proj(attended.reshape(*hidden.shape[:-1], self.o_proj.in_features)), own

    def _heads(self, projected: Array) -> Array:
        """`[..., heads, d]` of `[..., heads * d]`."""
        return projected.reshape(*projected.shape[:-1], projected.shape[-1] // self.head_width, self.head_width)


class RMSNorm(nnx.Module):
    """scale * x / sqrt(mean(x^2) + epsilon), with the mean in float32.

    Written out because `nnx.RMSNorm` multiplies the scale into the inverse root first, an array as large as the input,
    which makes the gradient of a small model some 6 % slower on CPU.
    """

    def __init__(self, policy: Transformer):
        self.scale = nnx.Param(jnp.ones(policy.hidden_size))
        self.epsilon = policy.rms_norm_epsilon

    def __call__(self, hidden: Array) -> Array:
        precise = hidden.astype(jnp.float32)
        normed = precise * jax.lax.rsqrt(jnp.mean(precise**2, axis=-1, keepdims=True) + self.epsilon)
        return normed.astype(hidden.dtype) * self.scale[...].astype(hidden.dtype)


class GatedMLP(nnx.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, policy: Transformer, rngs: nnx.Rngs):
        self.gate_proj = _linear(policy, policy.hidden_size, policy.intermediate_width, rngs)
        self.up_proj = _linear(policy, policy.hidden_size, policy.intermediate_width, rngs)
        self.down_proj = _linear(policy, policy.intermediate_width, policy.hidden_size, rngs, _residual_scale(policy))

    def __call__(self, hidden: Array) -> Array:
        return self.down_proj(nnx.silu(self.gate_proj(hidden)) * self.up_proj(hidden))


def _write(stored: Array, new: Array, offset: Array | int) -> Array:
    """`stored` `[P, K, G, T, d]` with `new` `[P, G, S, K, d]` in the columns from `offset` on."""
    return jax.lax.dynamic_update_slice_in_dim(stored, new.transpose(0, 3, 1, 2, 4), offset, axis=3)


def _linear(policy: Transformer, inputs: int, outputs: int, rngs: nnx.Rngs, variance: float = 1.0) -> nnx.Linear:
    """A matrix without bias, whose entries start normal with variance `variance` / inputs."""
    kernel_init = nnx.initializers.variance_scaling(variance, "fan_in", "normal")
    return nnx.Linear(inputs, outputs, use_bias=False, dtype=policy.dtype, kernel_init=kernel_init, rngs=rngs)


def _residual_scale(policy: Transformer) -> float:
    """Variance that keeps the sum of all 2 num_layers writers to the residual stream of order one."""
    return 0.5 / policy.num_layers
