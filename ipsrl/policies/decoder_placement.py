"""Where the matrices of a decoder lie on a mesh."""

from jax.sharding import PartitionSpec

from ipsrl.distributed.mesh import DATA
from ipsrl.distributed.placement import MODEL, Rule, Rules


def decoder_rules(num_heads: int, num_key_value_heads: int, tie_embeddings: bool, dtype: str) -> Rules:
    """Rules for parameters named as in Llama, with kernels `[in, out]`.

    Along `model` a block is cut as in Megatron (arXiv 1909.08053): query, key, value, gate and up by columns, o and
    down by rows, so that each half of a block ends in one sum over devices; embeddings and logits by the vocabulary.
    At rest the other dimension is cut along `data`. Norms and biases stay whole: they are too small to be cut.
    """
    into, out_of = PartitionSpec(DATA, MODEL), PartitionSpec(MODEL, DATA)
    heads, key_value_heads = ("num_heads", num_heads), ("num_key_value_heads", num_key_value_heads)
    rules = [
        Rule(r"embed_tokens/embedding", out_of, dtype=dtype),
        Rule(r"layers/\d+/self_attn/q_proj/kernel", into, heads, dtype),
        Rule(r"layers/\d+/self_attn/[kv]_proj/kernel", into, key_value_heads, dtype),
        Rule(r"layers/\d+/self_attn/o_proj/kernel", out_of, heads, dtype),
        Rule(r"layers/\d+/mlp/(gate|up)_proj/kernel", into, dtype=dtype),
        Rule(r"layers/\d+/mlp/down_proj/kernel", out_of, dtype=dtype),
    ]
    if not tie_embeddings:
        rules.append(Rule(r"lm_head/kernel", into, dtype=dtype))
    return (*rules, Rule(r".*", PartitionSpec()))
