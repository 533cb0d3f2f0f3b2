"""Sequence models in NumPy that run one text by itself: a transformer head by head, a recurrence token by token."""

import jax
import numpy as np
from scipy.special import expit, log_softmax

from ipsrl.policies.state_space import StateSpace
from ipsrl.policies.transformer import Transformer


def plain_transformer(policy: Transformer, parameters, tokens, temperature: float) -> np.ndarray:
    """`[N, V]` log-probabilities after each of the N tokens of one sequence, head by head, in NumPy."""
    parameters = jax.tree.map(np.asarray, parameters)
    width = policy.head_dim or policy.hidden_size // policy.num_heads
    length = len(tokens)
    # The two halves of a vector are its real and imaginary part, which a position turns.
    turns = np.exp(1j * np.outer(np.arange(length), policy.rotary.theta ** (-2 * np.arange(width // 2) / width)))

    def norm(x, layer):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + policy.rms_norm_epsilon) * layer["scale"]

    def turn(x):
        turned = (x[:, : width // 2] + 1j * x[:, width // 2 :]) * turns.astype(np.complex64)
        return np.concatenate([turned.real, turned.imag], -1)

    def softmax(x):
        weights = np.exp(x - x.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)

    embedding = parameters["embed_tokens"]["embedding"]
    x = embedding[np.asarray(tokens)]
    for number in range(policy.num_layers):
        layer = parameters["layers"][number]
        kernel = {name: part["kernel"] for name, part in (layer["self_attn"] | layer["mlp"]).items()}
        y = norm(x, layer["input_layernorm"])
        heads = []
        for head in range(policy.num_heads):
            key_value_head = head // (policy.num_heads // policy.num_key_value_heads)
            own = slice(head * width, (head + 1) * width)
            shared = slice(key_value_head * width, (key_value_head + 1) * width)
            query, key = turn(y @ kernel["q_proj"][:, own]), turn(y @ kernel["k_proj"][:, shared])
            logits = np.where(np.tri(length, dtype=bool), query @ key.T / np.float32(np.sqrt(width)), -np.inf)
            heads.append(softmax(logits) @ (y @ kernel["v_proj"][:, shared]))
        x = x + np.concatenate(heads, -1) @ kernel["o_proj"]
        y = norm(x, layer["post_attention_layernorm"])
        gate = y @ kernel["gate_proj"]
        x = x + (gate / (1 + np.exp(-gate)) * (y @ kernel["up_proj"])) @ kernel["down_proj"]
    head = embedding.T if policy.tie_embeddings else parameters["lm_head"]["kernel"]
    return np.log(softmax(norm(x, parameters["norm"]) @ head / temperature))


def plain_state_space(policy: StateSpace, parameters, tokens, temperature: float) -> np.ndarray:
    """`[N, V]` float64 log-probabilities after each of the N tokens of one text, one token after the other."""
    parameters = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), parameters)

    def norm(x, layer):
        return x / np.sqrt(np.mean(x * x) + policy.rms_norm_epsilon) * layer["scale"]

    inner, states = policy.inner_size, policy.state_size
    windows = [np.zeros((policy.convolution, inner)) for _ in range(policy.num_layers)]
    hidden_states = [np.zeros((inner, states)) for _ in range(policy.num_layers)]
    found = []
    for token in np.asarray(tokens):
        x = parameters["embedding"][token]
        for number in range(policy.num_layers):
            layer = parameters["layers"][number]
            mixer, y = layer["mixer"], norm(x, layer["norm"])
            windows[number] = np.vstack([windows[number][1:], y @ mixer["in_proj"]["kernel"]])
            u = (windows[number] * mixer["conv1d"]["kernel"]).sum(0) + mixer["conv1d"]["bias"]
            u = u * expit(u)
            projected = u @ mixer["x_proj"]["kernel"]
            rank = len(projected) - 2 * states
            low, write, read = projected[:rank], projected[rank : rank + states], projected[rank + states :]
            steps = np.logaddexp(0, low @ mixer["dt_proj"]["kernel"] + mixer["dt_proj"]["bias"])
            for channel in range(inner):
                rates = -np.exp(mixer["A_log"][channel])
                kept = np.exp(steps[channel] * rates) * hidden_states[number][channel]
                hidden_states[number][channel] = kept + steps[channel] * u[channel] * write
            gate = y @ mixer["gate_proj"]["kernel"]
            scanned = hidden_states[number] @ read + mixer["D"] * u
            x = x + (scanned * gate * expit(gate)) @ mixer["out_proj"]["kernel"]
        found.append(norm(x, parameters["norm_f"]) @ parameters["embedding"].T)
    return log_softmax(np.array(found) / temperature, axis=-1)
