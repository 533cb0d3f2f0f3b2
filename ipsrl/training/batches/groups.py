"""The groups of a step: choosing prompts, sampling answers and verifying them."""

import functools

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.environments.environment import Environment
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import verify_on_hosts
from ipsrl.structures import Outcomes, Prompts, Trajectories
from ipsrl.training.randomness import stream

Groups = tuple[Trajectories, Outcomes]


def shuffled_prompts(environment: Environment, seed: Array, step: Array) -> Array:
    """`[num_prompts]`, all prompts in the shuffled order of a step's stream; the stream wraps around."""
    return jax.random.permutation(stream(seed, step, "prompts"), environment.num_prompts)


def choose_prompts(
    environment: Environment, seed: Array, step: Array, prompts_per_step: int, start: Array | int = 0
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


def collect(
    environment: Environment,
    policy: Policy,
    parameters: Parameters,
    prompts: Prompts,
    seed: Array,
    step: Array,
    group_size: int,
    temperature: float,
    top_tokens: int = 0,
    sampling_round: int = 0,
) -> tuple[Trajectories, Outcomes]:
    """Samples and verifies the groups of one sampling round of a step."""
    key = sampling_key(seed, step, sampling_round)
    return sample_and_verify(environment, policy, parameters, prompts, key, group_size, temperature, top_tokens)


def sampling_key(seed: Array, step: Array, sampling_round: int = 0) -> Array:
    """The PRNG key that samples the groups of one sampling round of a step."""
    return stream(seed, step, f"sampling {sampling_round}" if sampling_round else "sampling")


def sample_and_verify(
    environment: Environment,
    policy: Policy,
    parameters: Parameters,
    prompts: Prompts,
    key: Array,
    group_size: int,
    temperature: float,
    top_tokens: int = 0,
) -> tuple[Trajectories, Outcomes]:
    """Samples groups and verifies them."""
    trajectories = sample_groups(environment, policy, parameters, prompts, key, group_size, temperature, top_tokens)
    return trajectories, verify(environment, trajectories)


def verify(environment: Environment, trajectories: Trajectories) -> Outcomes:
    """The environment's outcomes of the groups, computed on the device or on the host as the environment requires."""
    if environment.verifies_on_host:
        return verify_on_hosts(environment, trajectories)
    return _verify_on_device(environment, trajectories)


@functools.partial(jax.jit, static_argnames="environment")
def _verify_on_device(environment: Environment, trajectories: Trajectories) -> Outcomes:
    return environment.verify(trajectories)
