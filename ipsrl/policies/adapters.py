"""Low-rank adapters on frozen matrices (LoRA, arXiv 2106.09685), and frozen matrices in four bits (arXiv 2305.14314).

The parameters of a policy with adapters are two nested dicts: the trained `lora_a` and `lora_b` beside the matrices
they adapt, and the frozen rest; a policy reads the `union` of both. Only the small trained part is copied for a
reference policy, the optimiser's moments and checkpoints.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import qwix
from flax.traverse_util import flatten_dict, unflatten_dict
from jax import Array

from ipsrl.checking.fields import Checked, one_of, positive
from ipsrl.policies.matmul import activation_dtype, matrix_product
from ipsrl.policies.policy import Parameters

TRAINED = ("lora_a", "lora_b")
MATRICES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
FLOATS, FEW_BITS = ("float32", "bfloat16"), ("int8", "int4", "nf4")
# Inputs that share a scale: the block size of QLoRA (arXiv 2305.14314).
BLOCK = 64


@dataclasses.dataclass(frozen=True)
class LoRA(Checked):
    """x kernel + (alpha / rank) x A B, with A `[in, rank]` and B `[rank, out]` trained, and B initially zero.

    Attributes:
      rank, alpha: 16 and 32 in arXiv 2601.21669.
      targets: names of the matrices that have an adapter.
      frozen: type of the frozen parameters, see `frozen_as`.

    Raises:
      ValueError: a number is not positive, or a name is unknown.
    """

    rank: int = positive(16, called="rank of LoRA")
    alpha: float = positive(32.0, called="alpha of LoRA")
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    frozen: str = one_of(*FLOATS, *FEW_BITS, default="float32")

    def __post_init__(self):
        super().__post_init__()
        if not self.targets or not set(self.targets) <= set(MATRICES):
            raise ValueError(f"the targets of LoRA are some of {', '.join(MATRICES)}, not {', '.join(self.targets)!r}")

    @property
    def scale(self) -> float:
        return self.alpha / self.rank


def split(parameters: Parameters) -> tuple[Parameters, Parameters]:
    """The adapters and the rest: the inverse of `union`."""
    leaves = flatten_dict(parameters)
    adapters = {path: leaf for path, leaf in leaves.items() if path[-1] in TRAINED}
    rest = {path: leaf for path, leaf in leaves.items() if path not in adapters}
    return unflatten_dict(adapters), unflatten_dict(rest)


def merged(parameters: Parameters, lora: LoRA) -> Parameters:
    """Parameters without adapters that compute the same, for export: kernel + (alpha / rank) A B, in float32.

    Parameters without an adapter keep their type, except quantised ones: those become float32 as well.
    """
    if "lora_a" in parameters:
        # Exported once, so computed in full precision: a training step on TPU would round to bfloat16.
        added = lora.scale * jnp.dot(parameters["lora_a"], parameters["lora_b"], precision="highest")
        rest = {name: value for name, value in parameters.items() if name not in TRAINED}
        return rest | {"kernel": matrix(parameters["kernel"]).astype(jnp.float32) + added}
    return {
        name: merged(value, lora) if isinstance(value, dict) else matrix(value) for name, value in parameters.items()
    }


def matrix(kernel: Array | qwix.QArray) -> Array:
    """Dequantised kernel."""
    return qwix.dequantize(kernel) if isinstance(kernel, qwix.QArray) else kernel


def product(inputs: Array, kernel: Array | qwix.QArray, dtype: str) -> Array:
    """inputs kernel, as `matrix_product` with operands in `dtype`, in the type of activations.

    A quantised kernel is dequantised again in the backward pass: keeping the result would take the memory it saves.
    """

    def multiply(inputs, kernel):
        return matrix_product(inputs, matrix(kernel), dtype, activation_dtype(dtype))

    return (jax.checkpoint(multiply) if isinstance(kernel, qwix.QArray) else multiply)(inputs, kernel)


def frozen_as(dtype: str, path: str, leaf: Array) -> Array | qwix.QArray:
    """A frozen parameter in another type: one of `FLOATS`, or, for the kernels of the blocks only, one of `FEW_BITS`.

    In few bits, `BLOCK` neighbouring inputs of a column (or all, if `BLOCK` does not divide them) share a scale, their
    largest absolute value. Norms, biases, embeddings and `lm_head` are not quantised: they are small, or read by rows.

    Args:
      path: of the parameter, such as "layers/0/self_attn/q_proj/kernel".
    """
    if dtype in FLOATS:
        return leaf.astype(dtype)
    return _in_few_bits(leaf, dtype) if path.startswith("layers/") and path.endswith("/kernel") else leaf


@functools.partial(jax.jit, static_argnames="dtype")
def _in_few_bits(kernel: Array, dtype: str) -> qwix.QArray:
    block = BLOCK if kernel.shape[0] % BLOCK == 0 else kernel.shape[0]
    return qwix.quantize(kernel, dtype, channelwise_axes=(1,), tiled_axes={0: block})
