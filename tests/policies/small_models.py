"""Small sequence models with random parameters, and made-up texts for them."""

from functools import cache

import jax
import numpy as np

from ipsrl.policies.state_space import StateSpace
from ipsrl.policies.transformer import Transformer
from ipsrl.structures import Prompts, Trajectories
from tests.policies.hugging_face.decoder_families import answered, left_padded, random_parameters

V, G, T = 11, 3, 7
TEMPERATURE = 0.7
TRANSFORMER = Transformer(vocabulary_size=V, hidden_size=16, num_heads=4, num_key_value_heads=2, intermediate_size=24)
STATE_SPACE = StateSpace(V, hidden_size=20, num_layers=2, state_size=3, convolution=3, chunk=3)
SCORE = jax.jit(lambda policy, *arguments: policy.score(*arguments), static_argnums=0)


@cache
def parameters_of(policy: Transformer | StateSpace):
    """Parameters with noise on all of them, so that none is 0 or 1."""
    if isinstance(policy, Transformer):
        return random_parameters(policy)
    parameters = jax.device_get(jax.jit(policy.init)(jax.random.key(0)))
    generator = np.random.default_rng(1)
    return jax.tree.map(lambda leaf: leaf + np.float32(0.3 * generator.normal(size=leaf.shape)), parameters)


def make_prompts(lengths=(1, 4, 6), extra_padding=0) -> Prompts:
    generator = np.random.default_rng(0)
    return left_padded([generator.integers(0, V, length) for length in lengths], extra_padding)


def make_trajectories(prompts: Prompts) -> Trajectories:
    generator = np.random.default_rng(1)
    number = prompts.tokens.shape[0]
    mask = np.arange(T) < generator.integers(1, T + 1, (number, G, 1))
    return answered(prompts, generator.integers(0, V, (number, G, T)), mask)
