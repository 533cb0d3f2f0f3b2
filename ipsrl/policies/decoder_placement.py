"""Placement of a decoder's matrices on a mesh."""

from jax.sharding import PartitionSpec

from ipsrl.distributed.mesh import DATA
from ipsrl.distributed.placement import MODEL, PlacementRule, PlacementRules
from ipsrl.policies.adapters import FEW_BITS
from ipsrl.policies.transformer_config import TransformerConfig

COLUMNS, ROWS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"), ("o_proj", "down_proj")


def decoder_placement_rules(policy: TransformerConfig) -> PlacementRules:
    """Placement rules for parameters named as in Llama, with kernels `[in, out]`.

    Along `model` a block is sharded as in Megatron (arXiv 1909.08053): query, key, value, gate and up by columns, o and
    down by rows, so that each half of a block ends in one sum over devices; embeddings and logits by the vocabulary. At
    rest the other dimension is sharded along `data`. An adapter is sharded like its matrix, but not along its rank.
    Norms and biases are replicated: they are too small to be sharded.
    """
    into, out_of = PartitionSpec(DATA, MODEL), PartitionSpec(MODEL, DATA)
    heads = ("num_heads", policy.num_heads)
    key_value_heads = ("num_key_value_heads", policy.num_key_value_heads)
    # A quantised kernel keeps its type under any placement: it is dequantised where it is used.
    few_bits = policy.lora is not None and policy.lora.frozen in FEW_BITS
    kernel, dtype = (r"kernel/\w+", None) if few_bits else ("kernel", policy.dtype)
    rules = [
        PlacementRule(r"embed_tokens/embedding", out_of, dtype=policy.dtype),
        PlacementRule(rf"layers/\d+/self_attn/q_proj/{kernel}", into, heads, dtype),
        PlacementRule(rf"layers/\d+/self_attn/[kv]_proj/{kernel}", into, key_value_heads, dtype),
        PlacementRule(rf"layers/\d+/self_attn/o_proj/{kernel}", out_of, heads, dtype),
        PlacementRule(rf"layers/\d+/mlp/(gate|up)_proj/{kernel}", into, dtype=dtype),
        PlacementRule(rf"layers/\d+/mlp/down_proj/{kernel}", out_of, dtype=dtype),
    ]
    if not policy.tie_embeddings:
        rules.append(PlacementRule(r"lm_head/kernel", into, dtype=policy.dtype))
    targets = () if policy.lora is None else policy.lora.targets
    for names, (inputs, outputs) in ((COLUMNS, into), (ROWS, out_of)):
        if adapted := "|".join(name for name in names if name in targets):
            rules += [
                PlacementRule(rf"layers/.*/({adapted})/lora_a", PartitionSpec(inputs, None), dtype=policy.dtype),
                PlacementRule(rf"layers/.*/({adapted})/lora_b", PartitionSpec(None, outputs), dtype=policy.dtype),
            ]
    return (*rules, PlacementRule(r".*", PartitionSpec()))
