"""Tiny models of every family, with all that is special to it: windows shorter than texts, biases, caps, scalings."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.policies import hugging_face
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.transformer import Transformer
from ipsrl.structures import Prompts, Trajectories

V = 61
SIZES = {
    "vocab_size": V,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 256,
}
LLAMA3_SCALING = {
    "rope_type": "llama3",
    "rope_theta": 50.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
GEMMA3_POSITIONS = {
    "full_attention": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 8.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama 2": {"model_type": "llama", "num_key_value_heads": 4},
    "llama 3": {"model_type": "llama", "rope_parameters": LLAMA3_SCALING, "tie_word_embeddings": True},
    "llama with biases and narrow heads": {
        "model_type": "llama",
        "attention_bias": True,
        "mlp_bias": True,
        "head_dim": 6,
        "num_key_value_heads": 1,
        "rope_parameters": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 4.0},
    },
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen2 with windows": {
        "model_type": "qwen2",
        "use_sliding_window": True,
        "sliding_window": 5,
        "max_window_layers": 1,
    },
    "qwen2 with yarn": {
        "model_type": "qwen2",
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 100.0,
            "factor": 8.0,
            "original_max_position_embeddings": 32,
        },
    },
    "qwen3": {"model_type": "qwen3", "head_dim": 16, "attention_bias": True},
    "gemma2": {
        "model_type": "gemma2",
        "head_dim": 16,
        "sliding_window": 5,
        "query_pre_attn_scalar": 24,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
    },
    "gemma3": {
        "model_type": "gemma3_text",
        "head_dim": 16,
        "sliding_window": 5,
        "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 24,
        "final_logit_softcapping": 3.0,
        "rope_parameters": GEMMA3_POSITIONS,
    },
}


def config_of(family: str) -> dict[str, Any]:
    """The content of `config.json`."""
    return SIZES | FAMILIES[family]


def write_config(folder: Path, family: str, **changes: Any) -> Path:
    """`folder` with nothing but a configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_of(family) | changes))
    return folder


def write_checkpoint(folder: Path, family: str, **settings: Any) -> tuple[Path, Transformer, Any]:
    """A checkpoint with random weights, made by our export; and what it was made from."""
    source = write_config(folder / "configuration", family)
    policy = read_policy(source)
    parameters = random_parameters(policy)
    hugging_face.save(folder / "checkpoint", policy, parameters, source, **settings)
    return folder / "checkpoint", policy, parameters


def random_parameters(policy: Transformer, seed: int = 0) -> Any:
    """Parameters with noise on all of them, so that no bias and no scale of a norm can be forgotten.

    Made by NumPy: `init` by itself compiles a program for each shape.
    """
    generator = np.random.default_rng(seed)

    def noisy(path, leaf):
        scales = path[-1].key == "scale" and policy.block == "llama"
        return (scales + 0.3 * generator.normal(size=leaf.shape)).astype(np.float32)

    return jax.tree.map_with_path(noisy, jax.eval_shape(policy.init, jax.random.key(0)))


def left_padded(texts: list[np.ndarray], padding: int = 0) -> Prompts:
    """Prompts of different lengths, and more padding before all of them."""
    width = max(map(len, texts)) + padding
    tokens, mask = np.zeros((len(texts), width), np.int32), np.zeros((len(texts), width), bool)
    for row, text in enumerate(texts):
        tokens[row, width - len(text) :], mask[row, width - len(text) :] = text, True
    return Prompts(index=jnp.arange(len(texts)), tokens=jnp.asarray(tokens), mask=jnp.asarray(mask))


def answered(prompts: Prompts, tokens: np.ndarray, mask: np.ndarray) -> Trajectories:
    """Prompts with the answers `[P, G, T]`, of which the mask holds what is there."""
    tokens = np.where(mask, tokens, 0).astype(np.int32)
    last = np.broadcast_to(np.asarray(prompts.tokens)[:, None, -1:], (*tokens.shape[:2], 1))
    return Trajectories(
        prompts=prompts,
        observations=jnp.asarray(np.concatenate([last, tokens[:, :, :-1]], axis=-1)),
        tokens=jnp.asarray(tokens),
        token_mask=jnp.asarray(mask),
        legal_actions=None,
        behaviour_log_probs=jnp.zeros(tokens.shape),
        behaviour_entropy=jnp.zeros(tokens.shape),
        truncated=jnp.zeros(tokens.shape[:2], bool),
    )


def shapes_in(jaxpr) -> set[tuple[int, ...]]:
    """The shapes of all arrays that a program computes."""
    found = set()
    for equation in jaxpr.eqns:
        found |= {variable.aval.shape for variable in equation.outvars}
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                found |= shapes_in(inner)
    return found


def step_logits(policy: Transformer, parameters: Any, prompts: Prompts, observations: np.ndarray) -> np.ndarray:
    """`[P, G, T, V]` logits by `start` and T times `step`, which are given the observations `[P, G, T]`."""
    _, group_size, steps = observations.shape
    cache = jax.jit(policy.start, static_argnums=(2, 3))(parameters, prompts, group_size, steps)
    step = jax.jit(policy.step)
    logits = []
    for position in range(steps):
        new, cache = step(parameters, cache, observations[:, :, position], position)
        logits.append(np.asarray(new))
    return np.stack(logits, axis=2)
