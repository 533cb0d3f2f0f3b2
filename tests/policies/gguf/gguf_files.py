"""GGUF files of tiny models, written as llama.cpp's converter writes them (its conversion/llama.py, gemma.py)."""

import json
import math
import re
import shutil
from pathlib import Path

import gguf
import jax
import numpy as np
from safetensors.numpy import load_file

from ipsrl.policies import hugging_face
from ipsrl.policies.hugging_face.configuration import read_policy
from scripts.make_checkpoint import CHAT_TEMPLATE, train_tokenizer
from tests.policies.hugging_face.decoder_families import LLAMA3_SCALING, random_parameters, write_config

WORDS = 512
LLAMA3 = LLAMA3_SCALING | {"rope_theta": 500000.0, "factor": 32.0, "original_max_position_embeddings": 8192}
# Name in `decoder_families` -> what a GGUF file cannot express as it stands there.
FAMILIES = {
    "llama 2": {},
    "llama 3": {"rope_parameters": LLAMA3, "head_dim": 16},
    "llama with biases and narrow heads": {},
    "qwen2": {},
    "qwen2 with yarn": {},
    "qwen3": {},
    "gemma2": {"query_pre_attn_scalar": 16},
    "gemma3": {"query_pre_attn_scalar": 16},
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
IN_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_attention_layernorm": "ffn_norm",
}
IN_LAYER_OF_GEMMA = IN_LAYER | {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def write_model(folder: Path, family: str) -> Path:
    """A folder in the format of Hugging Face, with weights to which one can be added exactly."""
    source = write_config(folder / "configuration", family, vocab_size=WORDS, **FAMILIES[family])
    tokenizer = train_tokenizer(WORDS)
    tokenizer.save_pretrained(source)
    (source / "generation_config.json").write_text(json.dumps({"eos_token_id": [tokenizer.eos_token_id]}))
    policy = read_policy(source)
    parameters = jax.tree.map(lambda leaf: np.round(leaf * 1024) / 1024, random_parameters(policy))
    hugging_face.save(folder / "original", policy, parameters, source)
    shutil.rmtree(source)
    return folder / "original"


def write_gguf(path: Path, folder: Path, *, kind=None, change=lambda metadata, tensors: None) -> Path:
    """The GGUF file of a folder.

    Args:
      kind: of quantisation, for the matrices of the layers.
      change: changes metadata and tensors, dicts by name, before they are written.
    """
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder).to_dict()
    name = config["model_type"].removesuffix("_text")
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    metadata = {
        "general.architecture": name,
        "general.name": "Tiny",
        "general.license": "apache-2.0",
        **{f"{name}.{key}": value for key, value in _of_architecture(config, head_dim).items()},
        **_of_tokenizer(folder),
    }
    layer = IN_LAYER_OF_GEMMA if name.startswith("gemma") else IN_LAYER
    tensors = {}
    for theirs, values in load_file(folder / "model.safetensors").items():
        stem, _, leaf = theirs.rpartition(".")
        number = re.match(r"model\.layers\.(\d+)\.(.+)", stem)
        ours = f"blk.{number[1]}.{layer[number[2]]}" if number else WHOLE[stem]
        if name == "llama" and ours.endswith(("attn_q", "attn_k")):
            heads = config["num_attention_heads" if ours.endswith("attn_q") else "num_key_value_heads"]
            values = values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
        if name.startswith("gemma") and ours.endswith("norm"):
            values = values + 1
        tensors[f"{ours}.{leaf}"] = np.ascontiguousarray(values)
    if config["rope_parameters"].get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = _llama3_factors(config["rope_parameters"], head_dim)
    change(metadata, tensors)
    writer = gguf.GGUFWriter(path, metadata.pop("general.architecture", None))
    for key, value in metadata.items():
        _add(writer, key, value)
    for ours, values in tensors.items():
        if kind is not None and ours.startswith("blk.") and values.ndim == 2 and values.shape[1] % 32 == 0:
            writer.add_tensor(ours, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(ours, values)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return path


def _add(writer, key, value):
    kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    kinds.get(type(value), writer.add_array)(key, value)


def _of_architecture(config, head_dim):
    rotary = config["rope_parameters"]
    found = {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
    }
    if config["model_type"] == "gemma3_text":
        found["rope.freq_base_swa"] = rotary["sliding_attention"]["rope_theta"]
        found["attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in config["layer_types"]]
        rotary = rotary["full_attention"]
    for key in ("sliding_window", "attn_logit_softcapping", "final_logit_softcapping"):
        if config["model_type"].startswith("gemma") and config.get(key) is not None:
            found["attention." * (key == "sliding_window") + key] = config[key]
    found["rope.freq_base"] = rotary["rope_theta"]
    if rotary["rope_type"] in ("linear", "yarn"):
        found["rope.scaling.type"] = rotary["rope_type"]
        found["rope.scaling.factor"] = rotary["factor"]
    if rotary["rope_type"] == "yarn":
        found["rope.scaling.original_context_length"] = rotary["original_max_position_embeddings"]
    return found


def _of_tokenizer(folder):
    backend = json.loads((folder / "tokenizer.json").read_text())
    words = sorted(backend["model"]["vocab"], key=backend["model"]["vocab"].get)
    special = {token["content"] for token in backend["added_tokens"]}
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [3 if word in special else 1 for word in words],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in backend["model"]["merges"]],
        "tokenizer.ggml.eos_token_id": words.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": words.index("<|endoftext|>"),
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def _llama3_factors(rotary, head_dim):
    """The factor of each wavelength, as llama.cpp computes it."""
    low, high = rotary["low_freq_factor"], rotary["high_freq_factor"]
    length, factors = rotary["original_max_position_embeddings"], []
    for pair in range(head_dim // 2):
        wavelength = 2 * math.pi * rotary["rope_theta"] ** (2 * pair / head_dim)
        smooth = (length / wavelength - low) / (high - low)
        if wavelength < length / high:
            factors.append(1.0)
        elif wavelength > length / low:
            factors.append(rotary["factor"])
        else:
            factors.append(1 / ((1 - smooth) / rotary["factor"] + smooth))
    return np.array(factors, np.float32)
