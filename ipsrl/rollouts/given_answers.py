"""Answers that were given and not sampled, in the form in which a policy scores them."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.policies.policy import Policy
from ipsrl.structures import PolicyScores, Prompts, Trajectories, masked_sum


def given_answers(
    prompts: Prompts, tokens: Array, lengths: Array, log_probs: Array | None = None, own: Array | None = None
) -> Trajectories:
    """Given answers, as the sampler would return them, so that a policy can score them.

    Args:
      prompts: P prompts; without tokens the policy sees their numbers, and answers have one token.
      tokens: `[P, G, T]` int32, padded behind.
      lengths: `[P, G]` int32; 0 for a place of the group without an answer.
      log_probs: `[P, G, T]`, their log-probabilities under the policy that gave them; 0 by default.
      own: `[P, G, T]` bool, False for the tokens that the environment wrote; None if it wrote none.
    """
    seen = prompts.tokens[:, -1:] if prompts.tokens.shape[1] else prompts.index[:, None]
    first = jnp.broadcast_to(seen[:, None], (*tokens.shape[:2], 1))
    mask = jnp.arange(tokens.shape[-1]) < lengths[..., None]
    return Trajectories(
        prompts=prompts,
        observations=jnp.concatenate([first, tokens[..., :-1]], axis=-1),
        tokens=tokens,
        token_mask=mask if own is None else mask & own,
        legal_actions=None,
        behaviour_log_probs=jnp.zeros(tokens.shape, jnp.float32) if log_probs is None else log_probs,
        behaviour_entropy=jnp.zeros(tokens.shape, jnp.float32),
        truncated=jnp.zeros(tokens.shape[:2], bool),
        dictated=None if own is None else mask & ~own,
    )


def listed_answers(prompts: Prompts, answers: Sequence[Sequence[Sequence[int]]], max_tokens: int) -> Trajectories:
    """Given answers from lists of tokens, a group to each prompt, with room for `max_tokens` tokens in each."""
    lengths = np.array([[len(answer) for answer in group] for group in answers], np.int32)
    tokens = np.zeros((*lengths.shape, max_tokens), np.int32)
    tokens[np.arange(max_tokens) < lengths[..., None]] = np.concatenate([np.concatenate(group) for group in answers])
    return given_answers(prompts, jnp.asarray(tokens), jnp.asarray(lengths))


@functools.partial(jax.jit, static_argnames="policy")
def scores(policy: Policy, parameters: Any, given: Trajectories) -> PolicyScores:
    """The scores of given answers under a policy, at temperature 1."""
    return policy.score(parameters, given, 1.0)


@functools.partial(jax.jit, static_argnames="policy")
def answer_log_probs(policy: Policy, parameters: Any, given: Trajectories) -> Array:
    """`[P, G]`, log-probabilities of whole given answers under a policy, at temperature 1."""
    return masked_sum(policy.score(parameters, given, 1.0).log_probs, given.token_mask, axis=-1)
