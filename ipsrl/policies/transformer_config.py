"""The hyper-parameters of a decoder-only transformer, which its modules and its placement read."""

import dataclasses

from ipsrl.policies.adapters import MATRICES, LoRA
from ipsrl.policies.rotary import Rotary

# `decoder` has a module, or a function, for each.
BLOCK_NAMES = ("llama", "gemma")
REMATERIALISATION_NAMES = ("none", "layer", "dots")


@dataclasses.dataclass(frozen=True)
class SlidingWindow:
    """Which layers see only the last tokens, and how they encode positions.

    Attributes:
      window: number of tokens that a token sees, itself included.
      layers: numbers of these layers, from 0; all others see everything before them.
      rotary: the rotary positions of these layers.

    Raises:
      ValueError: `window` is not positive, or `layers` are not increasing numbers from 0.
    """

    window: int
    layers: tuple[int, ...]
    rotary: Rotary = dataclasses.field(default_factory=Rotary)

    def __post_init__(self):
        if self.window < 1:
            raise ValueError(f"window is {self.window}, but must be positive.")
        if list(self.layers) != sorted(set(self.layers)) or not all(number >= 0 for number in self.layers):
            raise ValueError(f"The layers {self.layers} of a sliding window must be increasing numbers from 0.")


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """Hyper-parameters of a decoder-only transformer.

    Attributes:
      vocabulary_size: V, number of tokens, and of logits.
      hidden_size: width of the residual stream.
      num_layers: number of blocks.
      num_heads: number of query heads.
      num_key_value_heads: number of key-value heads, a divisor of `num_heads`.
      head_dim: width of a head, even; None for hidden_size / num_heads.
      intermediate_size: width of the gated linear unit; None for 8/3 hidden_size, rounded up to a multiple of 32.
      block: "llama", or "gemma" for what Gemma 2 and 3 have in common: four norms in a block, whose scales count from
        one, tanh-GELU in place of SiLU, and token embeddings times sqrt(hidden_size).
      rotary: how positions turn queries and keys.
      sliding: the layers that see only the last tokens; None where all layers see everything.
      biases: names of the matrices that a bias follows, such as `("q_proj", "k_proj", "v_proj")` in Qwen2.
      normalise_heads: whether queries and keys pass an RMSNorm, head by head, before they are turned.
      query_pre_attention_scalar: the attention logits are q k / sqrt(of this); None for the width of a head.
      attention_soft_cap: attention logits become cap * tanh(logits / cap); None leaves them.
      logit_soft_cap: the same for the logits of tokens.
      rms_norm_epsilon: added to the mean square.
      tie_embeddings: whether the logits are products with the token embeddings, instead of a matrix `lm_head`.
      dtype: of the operands of products with matrices, "float32" or "bfloat16", and of activations, keys and values
        where they are not float32 in both cases: on CPU. Norms, softmax, logits and sums of products are everywhere.
      query_block: number of queries of a sequence whose attention weights exist at the same time; changes memory and
        rounding only.
      logits_at_once: the most logits of scored tokens that exist at the same time on a device, 2^27 of them in half a
        GiB, but at least those of one token of every sequence; changes memory and rounding only.
      remat: what the backward pass computes again instead of storing it: "none"; "layer", all of a block but its
        input; "dots", all but the products with matrices. With "none" the matrices are stored as well, in `dtype` and
        as they are gathered: take "layer" for models that are sharded over a mesh. Changes memory and rounding only.
      lora: the adapters, `lora_a` and `lora_b` beside the matrices they adapt; None for none.

    Raises:
      ValueError: a size is not positive, sizes do not fit each other, or a name is not one of the known.
    """

    vocabulary_size: int
    hidden_size: int = 64
    num_layers: int = 2
    num_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int | None = None
    intermediate_size: int | None = None
    block: str = "llama"
    rotary: Rotary = dataclasses.field(default_factory=Rotary)
    sliding: SlidingWindow | None = None
    biases: tuple[str, ...] = ()
    normalise_heads: bool = False
    query_pre_attention_scalar: float | None = None
    attention_soft_cap: float | None = None
    logit_soft_cap: float | None = None
    rms_norm_epsilon: float = 1e-6
    tie_embeddings: bool = True
    dtype: str = "float32"
    query_block: int = 256
    logits_at_once: int = 2**27
    remat: str = "none"
    lora: LoRA | None = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type in (int, int | None, float, float | None) and value is not None and value <= 0:
                raise ValueError(f"{field.name} is {value}, but must be positive.")
        if self.num_heads % self.num_key_value_heads:
            raise ValueError(f"num_key_value_heads {self.num_key_value_heads} must divide num_heads {self.num_heads}.")
        if self.head_dim is None and self.hidden_size % self.num_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} must be a multiple of num_heads {self.num_heads} if head_dim is None."
            )
        if self.head_width % 2:
            raise ValueError(f"A head is {self.head_width} wide, but rotary positions need an even width.")
        for name, known in (
            ("dtype", ("float32", "bfloat16")),
            ("block", BLOCK_NAMES),
            ("remat", REMATERIALISATION_NAMES),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}, but must be one of {known}.")
        if unknown := set(self.biases) - set(MATRICES):
            raise ValueError(f"biases has {sorted(unknown)}, but only {MATRICES} can have a bias.")
        if self.sliding is not None and max(self.sliding.layers, default=0) >= self.num_layers:
            raise ValueError(
                f"Layer {max(self.sliding.layers)} cannot slide: the last of {self.num_layers} layers is "
                f"number {self.num_layers - 1}."
            )

    @property
    def head_width(self) -> int:
        """d, the width of a head."""
        return self.hidden_size // self.num_heads if self.head_dim is None else self.head_dim

    @property
    def intermediate_width(self) -> int:
        """The width of the gated linear unit."""
        if self.intermediate_size is None:
            return -(-8 * self.hidden_size // (3 * 32)) * 32
        return self.intermediate_size
