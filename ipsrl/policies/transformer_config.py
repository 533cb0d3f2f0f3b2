"""The hyper-parameters of a decoder-only transformer, read by its modules and its placement."""

import dataclasses

from ipsrl.checking.fields import Checked, Range, between, in_range, one_of, positive
from ipsrl.distributed import memory
from ipsrl.policies.adapters import MATRICES, LoRA
from ipsrl.policies.rotary import Rotary

# `decoder` has a module, or a function, for each.
BLOCK_NAMES = ("llama", "gemma")
REMATERIALISATION_NAMES = ("none", "layer", "dots")
# Twice as many as the deepest language models have; each takes a hundredth of a second or more to trace.
MOST_LAYERS = 256


def _increase(numbers: tuple[int, ...]) -> bool:
    return list(numbers) == sorted(set(numbers)) and all(number >= 0 for number in numbers)


INCREASING = Range("be increasing numbers from 0", _increase, of_whole=True, called="the layers of a sliding window")


@dataclasses.dataclass(frozen=True)
class SlidingWindow(Checked):
    """Layers that attend only to the last tokens, and their positions.

    Attributes:
      window: number of tokens that a token attends to, itself included.
      layers: numbers of these layers, from 0; all others attend to everything before them.
      rotary: the rotary positions of these layers.

    Raises:
      ValueError: `window` is not positive, or `layers` are not increasing numbers from 0.
    """

    window: int = positive()
    layers: tuple[int, ...] = in_range(INCREASING)
    rotary: Rotary = dataclasses.field(default_factory=Rotary)


@dataclasses.dataclass(frozen=True)
class TransformerConfig(Checked):
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
      rotary: how positions rotate queries and keys.
      sliding: the layers with a sliding window; None if all layers attend to everything.
      biases: names of the matrices with a bias, such as `("q_proj", "k_proj", "v_proj")` in Qwen2.
      normalise_heads: whether an RMSNorm is applied to queries and keys, head by head, before rotation.
      query_pre_attention_scalar: the attention logits are q k / sqrt(of this); None for the head width.
      attention_soft_cap: attention logits become cap * tanh(logits / cap); None for no cap.
      logit_soft_cap: the same for the logits of tokens.
      rms_norm_epsilon: added to the mean square.
      tie_embeddings: whether the logits are products with the token embeddings instead of a matrix `lm_head`.
      dtype: "float32" or "bfloat16", of the operands of matrix products, and, except on CPU, of activations, keys and
        values. Norms, softmax, logits and sums of products are always float32.
      query_block: queries of a sequence whose attention weights exist at one time; changes memory and rounding only.
      logits_at_once: maximum number of logits of scored tokens on a device at the same time (2^27 take half a GiB), but
        at least those of one token of every sequence; changes memory and rounding only.
      remat: what the backward pass recomputes instead of storing: "none"; "layer", all of a block except its input;
        "dots", all except matrix products. "none" also stores the matrices, in `dtype` and as gathered: use "layer" for
        models sharded over a mesh. On CPU only "layer" stores less, and only where all layers are alike: they are then
        compiled once, as a loop. Changes memory and rounding only.
      lora: the adapters, `lora_a` and `lora_b` beside the matrices they adapt; None for none.

    Raises:
      ValueError: a size is not positive, sizes do not fit each other, or a name is unknown.
    """

    vocabulary_size: int = positive()
    hidden_size: int = positive(64)
    num_layers: int = between(1, MOST_LAYERS, 2)
    num_heads: int = positive(4)
    num_key_value_heads: int = positive(2)
    head_dim: int | None = positive(None)
    intermediate_size: int | None = positive(None)
    block: str = one_of(*BLOCK_NAMES, default="llama")
    rotary: Rotary = dataclasses.field(default_factory=Rotary)
    sliding: SlidingWindow | None = None
    biases: tuple[str, ...] = ()
    normalise_heads: bool = False
    query_pre_attention_scalar: float | None = positive(None)
    attention_soft_cap: float | None = positive(None)
    logit_soft_cap: float | None = positive(None)
    rms_norm_epsilon: float = positive(1e-6)
    tie_embeddings: bool = True
    dtype: str = one_of("float32", "bfloat16", default="float32")
    query_block: int = positive(256)
    logits_at_once: int = positive(2**27)
    remat: str = one_of(*REMATERIALISATION_NAMES, default="none")
    lora: LoRA | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.num_heads % self.num_key_value_heads:
            raise ValueError(f"num_key_value_heads {self.num_key_value_heads} must divide num_heads {self.num_heads}.")
        if self.head_dim is None and self.hidden_size % self.num_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} must be a multiple of num_heads {self.num_heads} if head_dim is None."
            )
        if self.head_width % 2:
            raise ValueError(f"A head is {self.head_width} wide, but rotary positions need an even width.")
        if unknown := set(self.biases) - set(MATRICES):
            raise ValueError(f"biases has {sorted(unknown)}, but only {MATRICES} can have a bias.")
        if self.sliding is not None and max(self.sliding.layers, default=0) >= self.num_layers:
            raise ValueError(
                f"Layer {max(self.sliding.layers)} cannot have a sliding window: "
                f"the last of {self.num_layers} layers is number {self.num_layers - 1}."
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

    @property
    def matrix_elements(self) -> int:
        """Number of elements of the matrices and the token embeddings, without adapters: nearly all parameters."""
        attention = 2 * (self.num_heads + self.num_key_value_heads) * self.head_width
        embeddings = self.vocabulary_size * (1 if self.tie_embeddings else 2)
        return self.hidden_size * (embeddings + self.num_layers * (attention + 3 * self.intermediate_width))

    def require_memory(self) -> None:
        """Raises ValueError, from arithmetic alone, if there is less memory than the weights take."""
        # Frozen weights may have four bits.
        bits = 32 if self.lora is None else 4
        memory.require(self.matrix_elements * bits // 8, "the weights of the policy", "choose a smaller model")
