"""The metadata of a GGUF file as the content of a `config.json`.

Names and defaults are those of llama.cpp, which reads a file as this module does: src/llama-model.cpp and src/models/.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ipsrl.checking.arguments import shown
from ipsrl.policies.gguf.file import File
from ipsrl.policies.rotary import Llama3Scaling
from ipsrl.policies.transformer_config import MOST_LAYERS

ARCHITECTURES = {
    "llama": ("llama", "LlamaForCausalLM"),
    "qwen2": ("qwen2", "Qwen2ForCausalLM"),
    "qwen3": ("qwen3", "Qwen3ForCausalLM"),
    "gemma2": ("gemma2", "Gemma2ForCausalLM"),
    "gemma3": ("gemma3_text", "Gemma3ForCausalLM"),
}
"""`general.architecture` -> `model_type` and `architectures` of `config.json`."""
KNOWN = {
    "context_length", "embedding_length", "block_count", "feed_forward_length", "vocab_size", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "rope.dimension_count", "rope.freq_base", "rope.scaling.type", "rope.scaling.factor", "rope.scaling.finetuned",
    "rope.scaling.original_context_length", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
}  # fmt: skip
KNOWN_OF = {
    "gemma2": {"attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping"},
    "gemma3": {
        "attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa", "final_logit_softcapping",
    },
}  # fmt: skip
"""Keys that are read, in all architectures and in one. Any other may mean that the model computes something else."""
NONE = {"expert_count": 0, "expert_used_count": 0}
"""Keys that say nothing at these values."""
ROTARY_FACTORS = "rope_freqs.weight"
# Of the files that the scaling of Llama 3 was trained with, then those of small models.
ORIGINAL_LENGTHS = (8192, *(2**power for power in range(8, 18) if power != 13))
# Of the largest of each, which scales queries as if its heads shared the width of the residual stream.
LARGEST = {"gemma2": 46, "gemma3": 62}


def configuration(file: File) -> dict[str, Any]:
    """The keys of `config.json` that describe the model; all that are missing have the default of its family.

    Raises:
      ValueError: another architecture, or what this file says of it has no counterpart.
    """
    _require_known(file)
    value, name = file.of_architecture, file.architecture
    width, heads = value("embedding_length", int), value("attention.head_count", int)
    head_dim = value("attention.key_length", int, max(1, width // heads))
    for key in ("attention.value_length", "rope.dimension_count"):
        if value(key, int, head_dim) != head_dim:
            raise ValueError(
                f"{file.path} has {name}.{key} {value(key, int)}, but only models in which it is the width of a head, "
                f"{head_dim}, can be imported"
            )
    # Before lists with an entry for each are made.
    if (layers := value("block_count", int)) > MOST_LAYERS:
        raise ValueError(f"{file.path} has {name}.block_count {layers}, but may have {MOST_LAYERS} at most")
    model_type, class_name = ARCHITECTURES[name]
    if "token_embd.weight" not in file.tensors:
        raise ValueError(f"{file.path} lacks the tensor 'token_embd.weight'")
    content = {
        "model_type": model_type,
        "architectures": [class_name],
        "vocab_size": int(file.tensors["token_embd.weight"].shape[-1]),
        "hidden_size": width,
        "intermediate_size": value("feed_forward_length", int),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": value("attention.head_count_kv", int, heads),
        "max_position_embeddings": value("context_length", int),
        "rms_norm_eps": value("attention.layer_norm_rms_epsilon", float),
        "rope_parameters": _rotary(file, head_dim),
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }
    if name != "qwen2":
        content |= {"head_dim": head_dim, "attention_bias": "blk.0.attn_q.bias" in file.tensors}
    elif head_dim * heads != width:
        raise ValueError(f"{file.path} has heads of width {head_dim}, but those of Qwen2 divide {width} among them")
    if name == "llama":
        content["mlp_bias"] = "blk.0.ffn_up.bias" in file.tensors
    return content | _of_gemma(file, content) if name in LARGEST else content


def _require_known(file: File) -> None:
    name = file.architecture
    if name not in ARCHITECTURES:
        raise ValueError(
            f"{file.path} has the architecture {name!r}, but only {', '.join(ARCHITECTURES)} can be imported"
        )
    if file.metadata.get(f"{name}.expert_count"):
        raise ValueError(f"{file.path} is a mixture of experts, but only dense models can be imported")
    known = KNOWN | KNOWN_OF.get(name, set())
    for key, value in file.metadata.items():
        owner, _, rest = key.partition(".")
        if owner == name and rest not in known and not (rest in NONE and value == NONE[rest]):
            raise ValueError(f"{file.path} has {key} {shown(value)}, which has no counterpart in a folder of {name}")


def _of_gemma(file: File, content: dict[str, Any]) -> dict[str, Any]:
    value, name, layers = file.of_architecture, file.architecture, content["num_hidden_layers"]
    head_dim = content["head_dim"]
    if layers == LARGEST[name]:
        head_dim = content["hidden_size"] // content["num_attention_heads"]
    content = {"query_pre_attn_scalar": head_dim, "hidden_activation": "gelu_pytorch_tanh"}
    if name == "gemma2":
        window = value("attention.sliding_window", int, 4096)
        slides = [layer % 2 == 0 for layer in range(layers)]
        content["attn_logit_softcapping"] = value("attn_logit_softcapping", float, 50.0)
        content["final_logit_softcapping"] = value("final_logit_softcapping", float, 30.0)
    else:
        window = value("attention.sliding_window", int, None)
        slides = _sliding_layers(file, layers) if window else [False] * layers
        content["final_logit_softcapping"] = value("final_logit_softcapping", float, None)
    kinds = ["sliding_attention" if slide else "full_attention" for slide in slides]
    return content | {"layer_types": kinds, "sliding_window": window or 4096}


def _sliding_layers(file: File, layers: int) -> list[bool]:
    """Whether each layer of Gemma 3 slides: by a list, or all but each p-th."""
    key = f"{file.architecture}.attention.sliding_window_pattern"
    pattern = file.metadata.get(key)
    if isinstance(pattern, list):
        if len(pattern) != layers or not all(isinstance(slides, bool) for slides in pattern):
            raise ValueError(f"{file.path} has {key} {shown(pattern)}, but must say it of {layers} layers")
        return pattern
    period = file.value(key, int, 6)
    return [layer % period < period - 1 for layer in range(layers)]


def _rotary(file: File, head_dim: int) -> dict[str, Any]:
    value = file.of_architecture
    parameters = {"rope_theta": value("rope.freq_base", float, 10000.0)} | _scaling(file, head_dim)
    if file.architecture != "gemma3":
        return parameters
    # The sliding layers have a base of their own and are never scaled.
    sliding = {"rope_type": "default", "rope_theta": value("rope.freq_base_swa", float, 10000.0)}
    return {"full_attention": parameters, "sliding_attention": sliding}


def _scaling(file: File, head_dim: int) -> dict[str, Any]:
    value = file.of_architecture
    # A factor without a type is linear.
    kind, factor = value("rope.scaling.type", str, "linear"), value("rope.scaling.factor", float, 1.0)
    if ROTARY_FACTORS in file.tensors:
        if factor != 1:
            raise ValueError(
                f"{file.path} has {ROTARY_FACTORS} and a rope scaling {kind}, but only one can be imported"
            )
        return _llama3(file, value("rope.freq_base", float, 10000.0), head_dim)
    if kind == "none" or (factor == 1 and kind in ("linear", "yarn")):
        return {"rope_type": "default"}
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind == "yarn":
        return {
            "rope_type": "yarn",
            "factor": factor,
            "original_max_position_embeddings": value("rope.scaling.original_context_length", int),
            "beta_fast": value("rope.scaling.yarn_beta_fast", float, 32.0),
            "beta_slow": value("rope.scaling.yarn_beta_slow", float, 1.0),
        }
    raise ValueError(
        f"{file.path} has the rope scaling {kind!r}, but only none, linear, yarn and that of Llama 3 can be imported"
    )


def _llama3(file: File, theta: float, head_dim: int) -> dict[str, Any]:
    """The scaling of Llama 3, of which a file has only what each wavelength is multiplied by, `[head_dim / 2]`."""
    stored = file.numbers(ROTARY_FACTORS)
    half = len(stored)
    frequencies = theta ** (-np.arange(half, dtype=np.float32) / half)
    for length in ORIGINAL_LENGTHS if stored.shape == (head_dim // 2,) and stored.min() >= 1 else ():
        scaling = Llama3Scaling(float(stored.max()), 1.0, 4.0, length)
        if np.allclose(stored, frequencies / np.asarray(scaling(jnp.asarray(frequencies), theta)), rtol=1e-4, atol=0):
            return {
                "rope_type": "llama3",
                "factor": scaling.factor,
                "low_freq_factor": scaling.low_frequency_factor,
                "high_freq_factor": scaling.high_frequency_factor,
                "original_max_position_embeddings": length,
            }
    raise ValueError(f"{ROTARY_FACTORS} of {file.path} is not the scaling of Llama 3, the only one known in this form")
