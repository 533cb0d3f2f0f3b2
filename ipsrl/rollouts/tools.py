"""Sampling with tools on the host: the compiled loop stops where trajectories wait, and goes on with their words."""

import functools
from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax import Array

from ipsrl.distributed import hosts
from ipsrl.environments.environment import Environment, ToolEnvironment, require_tokens
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rollouts.decoding import ORDINARY, Decoding
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
    decoding: Decoding = ORDINARY,
    top_tokens: int = 0,
) -> Trajectories:
    """`sample_groups` for an environment whose trajectories wait for tools; all that wait are answered together.

    The words of the tools are dictated tokens. Every process must call this; the first one calls the tools.

    Raises:
      ValueError: a tool's reply is too long, has a token outside the vocabulary, or leaves a trajectory waiting without
        a new token.
    """
    parameters = in_use(policy, parameters)
    sampling = begin(environment, policy, parameters, prompts, key, group_size, decoding, top_tokens)
    before = None
    while True:
        sampling = advance(environment, policy, parameters, sampling)
        written = sampling.written["tokens"], sampling.written["token_mask"]
        called, position, (tokens, mask), index = hosts.to_host(
            (_waiting(environment, sampling), sampling.position, written, sampling.prompts.index)
        )
        if not called.any():
            return finish(sampling)
        if before is not None and (called & (position == before)).any():
            raise ValueError("a trajectory waits for a tool again before it has a new token: `hear` must end the wait")
        before = np.where(called, position, -1)
        places = np.argwhere(called).tolist()
        answers, own = (
            [array[row, member, : position[row, member]] for row, member in places] for array in (tokens, mask)
        )
        call = functools.partial(environment.call, [int(index[row]) for row, _ in places], answers, own)
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
        reply = require_tokens("a tool's reply", reply, environment.vocabulary_size)
        if len(reply) > environment.longest_reply:
            raise ValueError(f"a tool replied {len(reply)} tokens, at most {environment.longest_reply} are allowed")
        replies[row, member, : len(reply)], lengths[row, member] = reply, len(reply)
    return replies, lengths
