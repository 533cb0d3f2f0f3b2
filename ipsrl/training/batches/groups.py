"""The groups of a step: which prompts they answer, how they are drawn, and what the environment says of them."""

import functools

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.environments.environment import Environment
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import judge_on_hosts
from ipsrl.structures import Prompts, Trajectories, Verdict
from ipsrl.training.randomness import stream

Groups = tuple[Trajectories, Verdict]


def shuffled_prompts(environment: Environment, seed: Array, step: Array) -> Array:
    """`[num_prompts]`, the prompts in the order of a step's stream, which begins anew where it ends."""
    return jax.random.permutation(stream(seed, step, "prompts"), environment.num_prompts)


def choose_prompts(
    environment: Environment, seed: Array, step: Array, prompts_per_step: int, start: Array | int = 0
) -> Prompts:
    """The prompts of a step, drawn without replacement; where there are too few, each comes about equally often.

    Args:
      start: how many prompts of the step's stream have been used already.
    """
    # Outside jit: a table of many prompts shall not be a constant of a program.
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
) -> tuple[Trajectories, Verdict]:
    """Samples the groups of a step, or of a further round of it, and has them judged."""
    key = sampling_key(seed, step, sampling_round)
    return sample_and_verify(environment, policy, parameters, prompts, key, group_size, temperature, top_tokens)


def sampling_key(seed: Array, step: Array, sampling_round: int = 0) -> Array:
    """What the groups of a step, or of a further round of it, are drawn with."""
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
) -> tuple[Trajectories, Verdict]:
    """Samples groups and has them judged."""
    trajectories = sample_groups(environment, policy, parameters, prompts, key, group_size, temperature, top_tokens)
    return trajectories, judge(environment, trajectories)


def judge(environment: Environment, trajectories: Trajectories) -> Verdict:
    """What the environment says of groups, on the device or on the host as it wants."""
    if environment.verifies_on_host:
        return judge_on_hosts(environment, trajectories)
    return _verify_on_device(environment, trajectories)


@functools.partial(jax.jit, static_argnames="environment")
def _verify_on_device(environment: Environment, trajectories: Trajectories) -> Verdict:
    return environment.verify(trajectories)
