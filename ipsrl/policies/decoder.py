"""The modules of the decoder-only transformer: embeddings, blocks, and the last norm.

RMSNorm (arXiv 1910.07467), rotary positions (arXiv 2104.09864), grouped-query attention (arXiv 2305.13245) and gated
linear units (arXiv 2002.05202), with the parameter names of Llama, Qwen and Gemma.
"""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from ipsrl.distributed.mesh import is_whole_cpu_program, keep_prompts_sharded
from ipsrl.policies.adapters import product
from ipsrl.policies.attention import KeyValues, NextTokens, WholeTexts
from ipsrl.policies.keys import Keys
from ipsrl.policies.matmul import activation_dtype, matrix_product, scaled, shifted
from ipsrl.policies.transformer_config import TransformerConfig

View = NextTokens | WholeTexts


class Decoder(nnx.Module):
    """Token embeddings, blocks, and the last norm."""

    def __init__(self, policy: TransformerConfig, keys: Keys):
        self.embed_tokens = Embedding(policy, keys)
        block = BLOCKS[policy.block]
        self.layers = nnx.List([block(policy, number, keys) for number in range(policy.num_layers)])
        self.norm = RMSNorm(policy, policy.hidden_size)
        if not policy.tie_embeddings:
            self.lm_head = Linear(policy, "lm_head", policy.hidden_size, policy.vocabulary_size, keys)
        self.dtype = policy.dtype
        self.tie_embeddings = policy.tie_embeddings
        self.logit_soft_cap = policy.logit_soft_cap
        self.remat = policy.remat

    def __call__(self, tokens: Array, views: Sequence[View]) -> tuple[Array, tuple[KeyValues, ...]]:
        """Hidden states `[P, N, hidden]` of `tokens` `[P, N]`, and the keys and values kept by each layer's view.

        With the rematerialisation "layer" on CPU, equal layers that read whole texts are a loop, which keeps none.
        """
        # Constraining hidden states makes XLA gather sharded matrices over `data`, and never the prompts instead.
        hidden = keep_prompts_sharded(self.embed_tokens(tokens))
        blocks = [nnx.split(layer) for layer in self.layers]
        equal = isinstance(views[0], WholeTexts) and len({graph for graph, _ in blocks}) == 1
        if self.remat == "layer" and equal and is_whole_cpu_program():
            return self.norm(_scan(blocks[0][0], [parameters for _, parameters in blocks], hidden, views[0])), ()
        kept = []
        for block, view in zip(blocks, views, strict=True):
            hidden, of_layer = _run(*block, hidden, view, self.remat)
            hidden = keep_prompts_sharded(hidden)
            kept.append(of_layer)
        return self.norm(hidden), tuple(kept)

    def logits(self, hidden: Array) -> Array:
        """Float32 logits `[..., V]`; in bfloat16 only the operands are rounded, not the sums."""
        kernel, in_axis = (self.embed_tokens.embedding, 1) if self.tie_embeddings else (self.lm_head.kernel, 0)
        logits = matrix_product(hidden, kernel[...], self.dtype, "float32", in_axis)
        if self.logit_soft_cap is None:
            return logits
        return self.logit_soft_cap * jnp.tanh(logits / self.logit_soft_cap)


@functools.partial(jax.jit, static_argnums=(0, 4))
def _run(graph: nnx.GraphDef, parameters: nnx.State, hidden: Array, view: View, remat: str) -> tuple[Array, KeyValues]:
    """One block, as its own function, so that equal blocks are traced once."""

    def run(parameters, hidden, view):
        return nnx.merge(graph, parameters)(hidden, view)

    return REMATERIALISATIONS[remat](run)(parameters, hidden, view)


def _scan(graph: nnx.GraphDef, layers: Sequence[nnx.State], hidden: Array, texts: WholeTexts) -> Array:
    """Hidden states after all blocks, by a loop of which the backward pass stores nothing but hidden states.

    Unrolled, XLA on CPU merges the blocks of the forward pass with those computed again, and so stores what is in them.
    """

    # As integers, because XLA on CPU would convert a whole stack of bfloat16 to float32 to take a slice. Only frozen
    # matrices are bfloat16, so no gradient is lost.
    def stack(*leaves):
        half = leaves[0].dtype == jnp.bfloat16
        return jnp.stack([jax.lax.bitcast_convert_type(leaf, jnp.uint16) if half else leaf for leaf in leaves])

    def unstack(leaf, like):
        return jax.lax.bitcast_convert_type(leaf, like.dtype) if like.dtype == jnp.bfloat16 else leaf

    def run(hidden, own):
        hidden, _ = nnx.merge(graph, jax.tree.map(unstack, own, layers[0]))(hidden, texts)
        return hidden, None

    return jax.lax.scan(jax.checkpoint(run, prevent_cse=False), hidden, jax.tree.map(stack, *layers))[0]


class LlamaBlock(nnx.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): Llama and Qwen."""

    def __init__(self, policy: TransformerConfig, number: int, keys: Keys):
        self.input_layernorm = RMSNorm(policy, policy.hidden_size)
        self.self_attn = Attention(policy, number, keys)
        self.post_attention_layernorm = RMSNorm(policy, policy.hidden_size)
        self.mlp = GatedMLP(policy, keys)

    def __call__(self, hidden: Array, view: View) -> tuple[Array, KeyValues]:
        attended, kept = self.self_attn(self.input_layernorm(hidden), view)
        hidden += attended
        return hidden + self.mlp(self.post_attention_layernorm(hidden)), kept


class GemmaBlock(LlamaBlock):
    """x + norm(attention(norm(x))), then x + norm(mlp(norm(x))): Gemma 2 and 3 (arXiv 2408.00118, 2503.19786)."""

    def __init__(self, policy: TransformerConfig, number: int, keys: Keys):
        super().__init__(policy, number, keys)
        self.pre_feedforward_layernorm = RMSNorm(policy, policy.hidden_size)
        self.post_feedforward_layernorm = RMSNorm(policy, policy.hidden_size)

    def __call__(self, hidden: Array, view: View) -> tuple[Array, KeyValues]:
        attended, kept = self.self_attn(self.input_layernorm(hidden), view)
        hidden += self.post_attention_layernorm(attended)
        return hidden + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(hidden))), kept


BLOCKS: dict[str, type[LlamaBlock]] = {"llama": LlamaBlock, "gemma": GemmaBlock}


# What the backward pass of a block recomputes instead of storing. Attention weights count as products with batch
# dimensions, so "dots" does not store them.
REMATERIALISATIONS: dict[str, Callable[[Callable], Callable]] = {
    "none": lambda function: function,
    "layer": jax.checkpoint,
    "dots": functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable),
}


class Attention(nnx.Module):
    """Projections around the attention of a layer's view."""

    def __init__(self, policy: TransformerConfig, number: int, keys: Keys):
        query_width = policy.num_heads * policy.head_width
        key_value_width = policy.num_key_value_heads * policy.head_width
        self.q_proj = Linear(policy, "q_proj", policy.hidden_size, query_width, keys)
        self.k_proj = Linear(policy, "k_proj", policy.hidden_size, key_value_width, keys)
        self.v_proj = Linear(policy, "v_proj", policy.hidden_size, key_value_width, keys)
        self.o_proj = Linear(policy, "o_proj", query_width, policy.hidden_size, keys, _residual_scale(policy))
        self.normalise_heads = policy.normalise_heads
        if policy.normalise_heads:
            self.q_norm = RMSNorm(policy, policy.head_width)
            self.k_norm = RMSNorm(policy, policy.head_width)
        self.head_width = policy.head_width
        sliding = policy.sliding if policy.sliding is not None and number in policy.sliding.layers else None
        self.rotary = policy.rotary if sliding is None else sliding.rotary
        self.window = None if sliding is None else sliding.window
        self.scale = (policy.query_pre_attention_scalar or policy.head_width) ** -0.5
        self.soft_cap = policy.attention_soft_cap
        self.query_block = policy.query_block

    def __call__(self, hidden: Array, view: View) -> tuple[Array, KeyValues]:
        queries, keys, values = (self._heads(linear(hidden)) for linear in (self.q_proj, self.k_proj, self.v_proj))
        if self.normalise_heads:
            queries, keys = self.q_norm(queries), self.k_norm(keys)
        queries, keys = (self.rotary(heads, view.query_positions, view.most_tokens) for heads in (queries, keys))
        attended, kept = view.attend(
            queries,
            keys,
            values,
            scale=self.scale,
            window=self.window,
            soft_cap=self.soft_cap,
            block=self.query_block,
        )
        *_, heads, width = attended.shape
        return self.o_proj(attended.reshape(*hidden.shape[:-1], heads * width)), kept

    def _heads(self, projected: Array) -> Array:
        """`[..., heads * d]` -> `[..., heads, d]`."""
        return projected.reshape(*projected.shape[:-1], projected.shape[-1] // self.head_width, self.head_width)


class GatedMLP(nnx.Module):
    """down(activation(gate(x)) * up(x)): SwiGLU in Llama and Qwen, GeGLU (by tanh) in Gemma."""

    def __init__(self, policy: TransformerConfig, keys: Keys):
        hidden, inner = policy.hidden_size, policy.intermediate_width
        self.gate_proj = Linear(policy, "gate_proj", hidden, inner, keys)
        self.up_proj = Linear(policy, "up_proj", hidden, inner, keys)
        self.down_proj = Linear(policy, "down_proj", inner, hidden, keys, _residual_scale(policy))
        self.activation = {"llama": jax.nn.silu, "gemma": jax.nn.gelu}[policy.block]

    def __call__(self, hidden: Array) -> Array:
        return self.down_proj(self.activation(self.gate_proj(hidden)) * self.up_proj(hidden))


class Linear(nnx.Module):
    """x kernel + bias: every matrix of the decoder except the token embeddings.

    `kernel` is `[in, out]`, initially normal with variance `variance` / inputs. `bias` `[out]`, initially zero, exists
    if `name` is in `policy.biases`. If `name` is among the targets of `policy.lora`, its adapter is added, with A
    initially uniform up to inputs^-1/2, and B zero.
    """

    def __init__(
        self, policy: TransformerConfig, name: str, inputs: int, outputs: int, keys: Keys, variance: float = 1.0
    ):
        initialise = nnx.initializers.variance_scaling(variance, "fan_in", "normal")
        self.kernel = nnx.Param(initialise(keys.next(), (inputs, outputs)))
        self.has_bias = name in policy.biases
        if self.has_bias:
            self.bias = nnx.Param(jnp.zeros(outputs))
        self.dtype = policy.dtype
        self.lora_scale = None
        if policy.lora is not None and name in policy.lora.targets:
            self.lora_scale = policy.lora.scale
            initialise = nnx.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
            self.lora_a = nnx.Param(initialise(keys.next(), (inputs, policy.lora.rank)))
            self.lora_b = nnx.Param(jnp.zeros((policy.lora.rank, outputs)))

    def __call__(self, inputs: Array) -> Array:
        outputs = product(inputs, self.kernel.get_value(), self.dtype)
        if self.has_bias:
            outputs = shifted(outputs, self.bias[...])
        if self.lora_scale is not None:
            inner = product(inputs, self.lora_a[...], self.dtype)
            outputs += self.lora_scale * product(inner, self.lora_b[...], self.dtype)
        return outputs


class Embedding(nnx.Module):
    """Rows of a matrix `[V, hidden]`; in Gemma times sqrt(hidden), rounded to the type of activations.

    Not `nnx.Embed`, which rounds the whole matrix before it takes a few rows.
    """

    def __init__(self, policy: TransformerConfig, keys: Keys):
        initialise = nnx.initializers.normal(policy.hidden_size**-0.5)
        self.embedding = nnx.Param(initialise(keys.next(), (policy.vocabulary_size, policy.hidden_size)))
        self.scale = policy.hidden_size**0.5 if policy.block == "gemma" else None
        self.dtype = policy.dtype

    def __call__(self, tokens: Array) -> Array:
        rows = jnp.take(self.embedding[...], tokens, axis=0).astype(activation_dtype(self.dtype))
        return rows if self.scale is None else rows * jnp.asarray(self.scale, rows.dtype)


class RMSNorm(nnx.Module):
    """scale * x / sqrt(mean(x^2) + epsilon), with the mean in float32; 1 + scale, applied in float32 too, in Gemma.

    Not `nnx.RMSNorm`, which multiplies the scale into the inverse root first, an array as large as the input; that
    makes the gradient of a small model about 6 % slower on CPU.
    """

    def __init__(self, policy: TransformerConfig, width: int):
        self.from_one = policy.block == "gemma"
        self.scale = nnx.Param(jnp.zeros(width) if self.from_one else jnp.ones(width))
        self.epsilon = policy.rms_norm_epsilon

    def __call__(self, hidden: Array) -> Array:
        precise = hidden.astype(jnp.float32)
        normed = precise * jax.lax.rsqrt(jnp.mean(precise**2, axis=-1, keepdims=True) + self.epsilon)
        if self.from_one:
            return scaled(normed, 1 + self.scale[...]).astype(hidden.dtype)
        return scaled(normed.astype(hidden.dtype), self.scale[...])


def _residual_scale(policy: TransformerConfig) -> float:
    """Variance that keeps the sum of all 2 num_layers outputs to the residual stream of order one."""
    return 0.5 / policy.num_layers
