"""Sampling with tools on the host: the compiled loop stops where trajectories wait, and goes on with their words."""

import functools
from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax import Array

from ipsrl.distributed import hosts
from ipsrl.environments.environment import Environment, ToolEnvironment
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rollouts.sampler import Sampling, advance, begin, finish, hear, in_use, sample_groups
from ipsrl.structures import Prompts, Trajectories


def sampler_for(environment: Environment) -> Callable[..., Trajectories]:
    """`sample_groups`, or for an environment with tools `sample_with_tools`."""
    return sample_with_tools if environment.uses_tools else sample_groups


def sample_with_tools(
    environment: ToolEnvironment,
    policy: Policy,
    parameters: Parameters,
    prompts: Prompts,
    key: Array,
    group_size: int,
    temperature: float = 1.0,
    top_tokens: int = 0,
) -> Trajectories:
    """`sample_groups` for an environment whose trajectories wait for tools; all that wait are answered together.

    The words of the tools are dictated tokens. Every process must call this; the first one calls the tools.

    Raises:
      ValueError: a tool's reply is too long, has a token outside the vocabulary, or leaves a trajectory waiting without
        a new token.
    """
    parameters = in_use(policy, parameters)
    sampling = begin(environment, policy, parameters, prompts, key, group_size, top_tokens)
    before = None
    while True:
        sampling = advance(environment, policy, parameters, sampling, temperature)
        called, position, tokens, index = hosts.to_host(
            (_waiting(environment, sampling), sampling.position, sampling.written["tokens"], sampling.prompts.index)
        )
        if not called.any():
            return finish(sampling)
        if before is not None and (called & (position == before)).any():
            raise ValueError("a trajectory waits for a tool again before it has a new token: `hear` must end the wait")
        before = np.where(called, position, -1)
        places = np.argwhere(called).tolist()
        answers = [tokens[row, member, : position[row, member]] for row, member in places]
        call = functools.partial(environment.call, [int(index[row]) for row, _ in places], answers)
        replies, lengths = _packed(environment, called.shape, places, hosts.broadcast(hosts.first_does(call)))
        sampling = hear(environment, sampling, replies, lengths, called)


@functools.partial(jax.jit, static_argnames="environment")
def _waiting(environment: ToolEnvironment, sampling: Sampling) -> Array:
    waiting = jax.vmap(jax.vmap(environment.waiting))(sampling.states)
    return waiting & ~sampling.finished & (sampling.position < environment.max_tokens)


def _packed(
    environment: ToolEnvironment, groups: tuple[int, int], places: list[list[int]], given: list[list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """`[P, G, W]` and `[P, G]`: the tokens of the replies at their places, and their lengths."""
    replies = np.zeros((*groups, environment.longest_reply), np.int32)
    lengths = np.zeros(groups, np.int32)
    if not isinstance(given, Sequence) or len(given) != len(places):
        raise ValueError(f"`call` must reply to each of {len(places)} answers with a list of tokens, not {given!r:.60}")
    for (row, member), reply in zip(places, given, strict=True):
        is_list = isinstance(reply, Sequence | np.ndarray) and not isinstance(reply, str | bytes)
        if not is_list or any(type(token) is bool or not isinstance(token, int | np.integer) for token in reply):
            raise ValueError(f"a tool's reply must be a list of tokens, not {reply!r:.60}")
        if len(reply) > environment.longest_reply:
            raise ValueError(f"a tool replied {len(reply)} tokens, at most {environment.longest_reply} are allowed")
        outside = [token for token in reply if not 0 <= token < environment.vocabulary_size]
        if outside:
            raise ValueError(
                f"a tool replied with the token {outside[0]}, which is outside the vocabulary, 0 to "
                f"{environment.vocabulary_size - 1}"
            )
        replies[row, member, : len(reply)], lengths[row, member] = reply, len(reply)
    return replies, lengths
