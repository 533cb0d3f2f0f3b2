"""A policy that writes a given text."""

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Scripted:
    """A policy that writes the same text always; what is dictated takes the places of its own tokens."""

    script: tuple[int, ...]
    vocabulary_size: int

    optional_fields = frozenset()
    placement_rules = ()

    def init(self, key):
        return {}

    def start(self, parameters, prompts, group_size, max_tokens):
        return ()

    def step(self, parameters, cache, observations, position):
        script = jnp.array(self.script)
        chosen = script[jnp.minimum(position, len(script) - 1)]
        logits = 50.0 * jax.nn.one_hot(chosen, self.vocabulary_size)
        return jnp.broadcast_to(logits, (*observations.shape, self.vocabulary_size)), cache
