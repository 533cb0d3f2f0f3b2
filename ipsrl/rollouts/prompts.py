"""The prompts of a step."""

import functools

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.environments.environment import Environment
from ipsrl.rollouts.randomness import stream
from ipsrl.structures import Prompts


def shuffled_prompts(environment: Environment, seed: Array, step: Array) -> Array:
    """`[num_prompts]`, all prompts in the shuffled order of a step's stream; the stream wraps around."""
    return jax.random.permutation(stream(seed, step, "prompts"), environment.num_prompts)


def choose_prompts(
    environment: Environment, seed: Array | int, step: Array | int, prompts_per_step: int, start: Array | int = 0
) -> Prompts:
    """The prompts of a step, sampled without replacement; if there are too few, each is used about equally often.

    Args:
      start: number of prompts of the step's stream used before.
    """
    # Outside jit: a large table of prompts must not become a constant of the program.
    return environment.prompts(_choose(environment, seed, step, prompts_per_step, start))


@functools.partial(jax.jit, static_argnames=("environment", "prompts_per_step"))
def _choose(environment, seed, step, prompts_per_step, start):
    places = (start + jnp.arange(prompts_per_step)) % environment.num_prompts
    return shuffled_prompts(environment, seed, step)[places]
