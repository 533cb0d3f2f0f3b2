"""Reads a Hugging Face `config.json` into the fields of `Transformer`."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ipsrl.checking.model_folder import read_object, require_files
from ipsrl.policies.rotary import LinearScaling, Llama3Scaling, Rotary, Scaling, YarnScaling
from ipsrl.policies.transformer import Transformer
from ipsrl.policies.transformer_config import MOST_LAYERS, SlidingWindow

ATTENTION_MATRICES = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP_MATRICES = ("gate_proj", "up_proj", "down_proj")


def read_policy(model_dir: str | Path) -> Transformer:
    """The `Transformer` described by a folder's `config.json`, computing in float32.

    `dataclasses.replace` changes how it computes (`dtype`, `query_block`, `remat`). For a multi-modal Gemma 3 this is
    the text decoder.

    Raises:
      ValueError: there is no `config.json`, or it requires a family or an option that this decoder does not support.
    """
    folder = Path(model_dir)
    config, text = _configurations(folder)
    try:
        return Transformer(
            vocabulary_size=text.vocab_size,
            hidden_size=text.hidden_size,
            num_layers=text.num_hidden_layers,
            num_heads=text.num_attention_heads,
            num_key_value_heads=text.num_key_value_heads,
            head_dim=getattr(text, "head_dim", None),
            intermediate_size=text.intermediate_size,
            rms_norm_epsilon=text.rms_norm_eps,
            # A multi-modal model's own configuration decides whether its text decoder ties the embeddings.
            tie_embeddings=config.tie_word_embeddings,
            **_rotary_fields(text),
            **FAMILIES[config.model_type](text),
        )
    except ValueError as error:
        raise ValueError(f"{folder}/config.json cannot be imported: {error}") from error


def num_positions(model_dir: str | Path) -> int:
    """Number of tokens of the longest text that the model of a folder supports.

    Raises:
      ValueError: as `read_policy`.
    """
    _, text = _configurations(Path(model_dir))
    scaling = read_policy(model_dir).rotary.scaling
    # With yarn, the configuration may state the length before scaling; with other scalings, the length after.
    stretched = scaling.factor * scaling.original_length if isinstance(scaling, YarnScaling) else 0
    return max(text.max_position_embeddings, int(stretched))


def _configurations(folder: Path) -> tuple[Any, Any]:
    """The `transformers` object of `config.json`, and its part that describes the text decoder."""
    content = read_json(folder)
    # Imported late: transformers takes seconds to import.
    from transformers import AutoConfig

    model_type, text = content["model_type"], content.get("text_config")
    layers = (text if isinstance(text, dict) else content).get("num_hidden_layers")
    # transformers makes a list of them before it looks at their number.
    if isinstance(layers, int) and layers > MOST_LAYERS:
        raise ValueError(f"{folder}/config.json has num_hidden_layers {layers}, but may have {MOST_LAYERS} at most")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    # A bad value may lead it anywhere.
    except Exception as error:
        raise ValueError(
            f"{folder}/config.json is not a valid configuration of a {model_type} model: "
            f"{textwrap.shorten(str(error), 300)}"
        ) from error
    return config, config.text_config if model_type == "gemma3" else config


def read_json(folder: Path) -> dict[str, Any]:
    """The content of a `config.json` of a supported family, without quantisation.

    Raises:
      ValueError: it is of another kind.
    """
    path = folder / "config.json"
    require_files(folder)
    content = read_object(path)
    model_type = content.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise ValueError(
            f"{path} names the model type {model_type!r}, but only {', '.join(FAMILIES)} can be imported: choose a "
            "checkpoint of one of these families."
        )
    if content.get("quantization_config"):
        raise ValueError(
            f"{path} has a quantization_config, but quantised weights cannot be trained: choose the checkpoint in "
            "bfloat16, float16 or float32."
        )
    return content


def text_config(folder: Path, dtype: str) -> dict[str, Any]:
    """The `config.json` of an export: that of `folder`, with weights in `dtype`; only the text part if multi-modal."""
    content = read_json(folder)
    if content["model_type"] == "gemma3":
        whole, content = content, dict(content["text_config"])
        for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
            if key in whole:
                content.setdefault(key, whole[key])
        content["tie_word_embeddings"] = whole.get("tie_word_embeddings", True)
        content |= {"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"]}
    content.pop("torch_dtype", None)  # the older name of `dtype`
    return content | {"dtype": dtype}


def _rotary_fields(config: Any) -> dict[str, Any]:
    """The fields `rotary` and `sliding`."""
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    if unknown := set(kinds) - {"full_attention", "sliding_attention"}:
        raise ValueError(f"layer_types has {sorted(unknown)}, but only full and sliding attention are supported.")
    parameters = config.rope_parameters
    nested = "full_attention" in parameters
    layers = tuple(number for number, kind in enumerate(kinds) if kind == "sliding_attention")
    sliding = None
    if layers:
        if config.sliding_window is None:
            raise ValueError("layer_types has sliding layers, but sliding_window is null: give it their width.")
        rotary = _rotary(parameters["sliding_attention"] if nested else parameters)
        sliding = SlidingWindow(config.sliding_window, layers, rotary)
    return {"rotary": _rotary(parameters["full_attention"] if nested else parameters), "sliding": sliding}


def _rotary(parameters: dict[str, Any]) -> Rotary:
    if parameters.get("partial_rotary_factor", 1.0) != 1.0:
        raise ValueError(
            f"partial_rotary_factor is {parameters['partial_rotary_factor']}, but only whole heads can be rotated."
        )
    return Rotary(parameters["rope_theta"], _scaling(parameters))


def _scaling(parameters: dict[str, Any]) -> Scaling | None:
    match parameters["rope_type"]:
        case "default":
            return None
        case "linear":
            return LinearScaling(parameters["factor"])
        case "llama3":
            return Llama3Scaling(
                parameters["factor"],
                parameters["low_freq_factor"],
                parameters["high_freq_factor"],
                parameters["original_max_position_embeddings"],
            )
        case "yarn":
            if parameters.get("mscale") or parameters.get("mscale_all_dim"):
                raise ValueError("mscale and mscale_all_dim of yarn are not supported: remove them from the file.")
            return YarnScaling(
                parameters["factor"],
                parameters["original_max_position_embeddings"],
                parameters.get("beta_fast") or 32.0,
                parameters.get("beta_slow") or 1.0,
                parameters.get("attention_factor"),
                parameters.get("truncate", True),
            )
        case other:
            raise ValueError(
                f"rope_type {other!r} is not supported, only default, linear, llama3 and yarn: texts as long as in "
                "pre-training need no scaling, so it may be removed from the file."
            )


def _llama(config: Any) -> dict[str, Any]:
    _check_activation("hidden_act", config.hidden_act, "silu")
    mlp = MLP_MATRICES if config.mlp_bias else ()
    return {"biases": _attention_biases(config) + mlp}


def _qwen2(config: Any) -> dict[str, Any]:
    _check_activation("hidden_act", config.hidden_act, "silu")
    return {"biases": ("q_proj", "k_proj", "v_proj")}


def _qwen3(config: Any) -> dict[str, Any]:
    _check_activation("hidden_act", config.hidden_act, "silu")
    return {"biases": _attention_biases(config), "normalise_heads": True}


def _gemma2(config: Any) -> dict[str, Any]:
    _check_activation("hidden_activation", config.hidden_activation, "gelu_pytorch_tanh")
    if config.use_bidirectional_attention:
        raise ValueError("use_bidirectional_attention is set, but a policy generates from left to right.")
    return {
        "block": "gemma",
        "biases": _attention_biases(config),
        "query_pre_attention_scalar": float(config.query_pre_attn_scalar),
        "attention_soft_cap": config.attn_logit_softcapping,
        "logit_soft_cap": config.final_logit_softcapping,
    }


def _gemma3(config: Any) -> dict[str, Any]:
    # transformers' Gemma 3 reads this key but ignores it, so both following and ignoring it would surprise someone.
    _require_null(config, "attn_logit_softcapping")
    return _gemma2(config) | {"normalise_heads": True}


def _multi_modal_gemma3(config: Any) -> dict[str, Any]:
    # Likewise: the text model of transformers follows this key, the multi-modal one ignores it.
    _require_null(config, "final_logit_softcapping")
    return _gemma3(config)


FAMILIES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gemma3": _multi_modal_gemma3,
}


def _require_null(config: Any, key: str) -> None:
    if (value := getattr(config, key)) is not None:
        raise ValueError(f"{key} is {value}, which Gemma 3 does not have: set it to null.")


def _attention_biases(config: Any) -> tuple[str, ...]:
    return ATTENTION_MATRICES if config.attention_bias else ()


def _check_activation(key: str, value: str, supported: str) -> None:
    if value != supported:
        raise ValueError(f"{key} is {value!r}, but models of this family are supported with {supported!r} only.")
