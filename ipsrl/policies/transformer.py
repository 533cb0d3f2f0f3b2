"""A decoder-only language model as a policy for text: observations are the tokens before each action.

One decoder for Llama, Qwen2, Qwen3, Gemma 2 and Gemma 3; the defaults are Llama's. A group shares its prompt: the
prompt is read once, and the completions attend to its stored keys and values.

The last token of a prompt is the first observation. So the prompt that is read ahead consists of the tokens before it,
and observations start at the position of that last token.
"""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.sharding import PartitionSpec

from ipsrl.distributed.mesh import DATA, prompt_devices
from ipsrl.distributed.placement import MODEL, PlacementRules
from ipsrl.policies.attention import KeyValues, NextTokens, Positions, WholeTexts, key_positions
from ipsrl.policies.decoder import BLOCKS, Decoder
from ipsrl.policies.decoder_placement import decoder_placement_rules
from ipsrl.policies.keys import Keys, graph, layer_parameters
from ipsrl.policies.matmul import activation_dtype
from ipsrl.policies.policy import Actions, Parameters, answer_mean, prompt_log_probs, score_hidden
from ipsrl.policies.transformer_config import TransformerConfig
from ipsrl.structures import PolicyScores, Prompts, Trajectories


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cache:
    """State of `step`: K key-value heads of width d in each layer.

    Attributes:
      prompt: for each layer `[P, K, L - 1, d]`, the prompt without its last token.
      prompt_positions: `[P, L - 1]` int32, `UNREACHABLE` on padding.
      first_position: `[P]` int32, position of the first observation.
      completion: for each layer `[P, K, G, T, d]`; columns up to the current position are filled.
    """

    prompt: tuple[KeyValues, ...]
    prompt_positions: Array
    first_position: Array
    completion: tuple[KeyValues, ...]


@dataclasses.dataclass(frozen=True)
class Transformer(TransformerConfig):
    """A decoder-only transformer: its hyper-parameters (see `TransformerConfig`) and its `Policy` interface.

    Parameters are a nested dict of float32 arrays, named as in Llama: `embed_tokens`, `layers` -> number ->
    `input_layernorm`, `self_attn` (`q_proj`, `k_proj`, `v_proj`, `o_proj`), `post_attention_layernorm`, `mlp`
    (`gate_proj`, `up_proj`, `down_proj`), then `norm`, and `lm_head` unless embeddings are tied. A `kernel` is `[in,
    out]`, a `bias` `[out]`. Normalised heads add `q_norm` and `k_norm` to `self_attn`, Gemma's blocks
    `pre_feedforward_layernorm` and `post_feedforward_layernorm` to a layer.
    """

    optional_fields: ClassVar[frozenset[str]] = frozenset({"prompt_log_probs", "answer_features"})

    @property
    def placement_rules(self) -> PlacementRules:
        return decoder_placement_rules(self)

    def init(self, key: Array) -> Parameters:
        """Fresh float32 parameters.

        Matrices are normal with variance 1 / inputs; those that write to the residual stream are smaller by sqrt(2
        num_layers), so that its variance does not grow with depth.
        """
        return nnx.to_pure_dict(nnx.state(Decoder(self, Keys(key))))

    def init_layer(self, key: Array, number: int | Array) -> Parameters:
        # The number decides how a block computes, not what it has.
        return layer_parameters(functools.partial(BLOCKS[self.block], self, 0), key, number)

    def start(self, parameters: Parameters, prompts: Prompts, group_size: int, max_tokens: int) -> Cache:
        """Reads all but the last token of each prompt, once, and allocates `[P, group_size, max_tokens]` tokens.

        A prompt without tokens (L = 0) is allowed: its first observation has position 0.
        """
        tokens, mask = prompts.tokens[:, :-1], prompts.mask[:, :-1]
        # Nothing is differentiated, and so nothing is computed again.
        _, prompt = dataclasses.replace(self, remat="none")._read(parameters, tokens, WholeTexts(mask))
        shape = (len(tokens), self.num_key_value_heads, group_size, max_tokens, self.head_width)
        empty = KeyValues(*[jnp.zeros(shape, activation_dtype(self.dtype))] * 2)
        return Cache(
            prompt=prompt,
            prompt_positions=key_positions(mask),
            first_position=mask.sum(axis=1),
            completion=(empty,) * self.num_layers,
        )

    def step(self, parameters: Parameters, cache: Cache, observations: Array, position: Array) -> tuple[Array, Cache]:
        first = cache.first_position[:, None]
        capacity = cache.completion[0].keys.shape[3]
        queries = first + position if position.ndim == 0 else (first + position)[..., None]
        positions = Positions(queries, cache.prompt_positions, first + jnp.arange(capacity))
        views = [
            NextTokens(prompt, own, position, positions)
            for prompt, own in zip(cache.prompt, cache.completion, strict=True)
        ]
        decoder = self._decoder(parameters)
        hidden, completion = decoder(observations, views)
        return decoder.logits(hidden), dataclasses.replace(cache, completion=completion)

    def score(self, parameters: Parameters, trajectories: Trajectories, temperature: float) -> PolicyScores:
        """Log-probabilities and entropies `[P, G, T]` of all sampled tokens, in a pass over prompts and completions.

        Raises:
          ValueError: `observations` are not `[P, G, T]` for the P prompts.
        """
        observations, prompts = trajectories.observations, trajectories.prompts
        if observations.ndim != 3 or observations.shape[0] != prompts.tokens.shape[0]:
            raise ValueError(
                f"observations {observations.shape} must be [P, G, T] for the {prompts.tokens.shape[0]} prompts."
            )
        num_prompts, group_size, length = observations.shape
        before, mask = prompts.tokens[:, :-1], prompts.mask[:, :-1]
        tokens = jnp.concatenate([before, observations.reshape(num_prompts, -1)], axis=1)
        hidden, _ = self._read(parameters, tokens, WholeTexts(mask, group_size, length))
        hidden = hidden[:, before.shape[1] :].reshape(*observations.shape, -1)
        return self._score(parameters, hidden, Actions.of(trajectories), temperature)

    def prompt_log_probs(self, parameters: Parameters, prompts: Prompts, temperature: float) -> tuple[Array, Array]:
        hidden, _ = self._read(parameters, prompts.tokens, WholeTexts(prompts.mask))
        return prompt_log_probs(
            prompts, lambda actions: self._score(parameters, hidden[:, None, :-1], actions, temperature)
        )

    def answer_features(self, parameters: Parameters, trajectories: Trajectories) -> Array:
        tokens, prompts = trajectories.tokens, trajectories.prompts
        texts = jnp.concatenate([prompts.tokens, tokens.reshape(len(tokens), -1)], axis=1)
        hidden, _ = self._read(parameters, texts, WholeTexts(prompts.mask, *tokens.shape[1:]))
        return answer_mean(hidden[:, prompts.tokens.shape[1] :].reshape(*tokens.shape, -1), trajectories.written)

    def _decoder(self, parameters: Parameters) -> "Decoder":
        return nnx.merge(graph(Decoder, self), parameters)

    def _read(self, parameters: Parameters, tokens: Array, texts: WholeTexts) -> tuple[Array, tuple[KeyValues, ...]]:
        """Hidden states `[P, L + G T, hidden]` of whole texts, and their prompts' keys and values in every layer."""
        return self._decoder(parameters)(tokens, [texts] * self.num_layers)

    def _score(self, parameters: Parameters, hidden: Array, actions: Actions, temperature: float) -> PolicyScores:
        """Scores of actions after `hidden`, with at most `logits_at_once` logits on a device at a time."""
        devices = prompt_devices()
        rows = -(-hidden.shape[0] // devices) * hidden.shape[1]
        row = -(-self.vocabulary_size // jax.sharding.get_abstract_mesh().shape.get(MODEL, 1))
        at_once = max(1, self.logits_at_once // (rows * row))

        def score(unembedding, hidden, actions):
            logits = self._decoder(parameters | unembedding).logits
            return score_hidden(logits, hidden, actions, temperature, at_once)

        name = "embed_tokens" if self.tie_embeddings else "lm_head"
        unembedding = {name: parameters[name]}
        if at_once >= hidden.shape[2] or devices == 1 or hidden.shape[0] % devices:
            return score(unembedding, hidden, actions)

        # Under jit over the mesh, the loop over blocks would gather the unembedding and sum its gradient over `data` in
        # each block. As a per-device loop it does so once.
        def score_own(unembedding, hidden, actions):
            return score(jax.lax.pcast(unembedding, DATA, to="varying"), hidden, actions)

        prompts = PartitionSpec(DATA)
        own = jax.shard_map(
            score_own, in_specs=(PartitionSpec(), prompts, prompts), out_specs=prompts, axis_names={DATA}
        )
        return own(unembedding, hidden, actions)
