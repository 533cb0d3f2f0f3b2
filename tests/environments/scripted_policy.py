"""A policy that writes a given text, and what is sampled from it between the replies of tools."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.rollouts.tools import sample_with_tools
from tests.environments.language.tokenizers_for_tests import EOS, ids


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


def written(environment, prompt, *parts):
    """Samples a text whose parts are the model's and the tools' in turn; the tools' parts of the script are noise."""
    tokens = [ids(environment.tokenizer, part) for part in parts]
    script = [token if number % 2 == 0 else 0 for number, row in enumerate(tokens) for token in row]
    policy, prompts = Scripted((*script, EOS), environment.vocabulary_size), environment.prompts(np.array([prompt]))
    return jax.device_get(sample_with_tools(environment, policy, {}, prompts, jax.random.key(0), 1))
