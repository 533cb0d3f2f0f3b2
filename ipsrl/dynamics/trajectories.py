"""Every trajectory of a small environment, with its probabilities under a table of logits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.arguments import checked
from ipsrl.environments.state_graph import StateGraph
from ipsrl.policies.policy import distribution, entropy
from ipsrl.structures import Trajectories

MOST_TRAJECTORIES = 100_000
Walk = tuple[tuple[int, int], ...]
"""State and action of each step."""


@functools.cache
def every_walk(environment: StateGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`(states, actions, mask)`, each `[M, T]`: all walks of the first prompt, in lexicographic order; 0 after their
    end.

    Raises:
      ValueError: there are more than 100,000.
    """
    with jax.ensure_compile_time_eval():
        states, actions = jnp.arange(environment.num_observations), jnp.arange(environment.vocabulary_size)
        legal = np.asarray(environment.legal(states))
        following = np.asarray(environment.step(*jnp.meshgrid(states, actions, indexing="ij")))
        first_state = int(environment.first_state(jnp.int32(0)))
    walks: list[Walk] = []
    unfinished: list[tuple[Walk, int]] = [((), first_state)]
    while unfinished:
        walk, state = unfinished.pop()
        if state >= environment.num_observations:
            walks.append(walk)
        else:
            moves = np.flatnonzero(legal[state])[::-1].tolist()
            unfinished.extend(((*walk, (state, move)), int(following[state, move])) for move in moves)
        if len(walks) + len(unfinished) > MOST_TRAJECTORIES:
            raise ValueError(f"{environment} has more than {MOST_TRAJECTORIES} trajectories: too many to list")
    table = np.zeros((len(walks), environment.max_tokens, 2), np.int32)
    for row, walk in enumerate(walks):
        table[row, : len(walk)] = walk
    mask = np.arange(environment.max_tokens) < np.array([len(walk) for walk in walks])[:, None]
    return table[..., 0], table[..., 1], mask


@checked
def every_trajectory(environment: StateGraph, logits: Array, top_tokens: int = 0) -> Trajectories:
    """All M trajectories of the first prompt as one group `[1, M, T]`, each once, as the sampler would return them.

    Args:
      environment: of at most 100,000 trajectories.
      logits: `[S, V]`, of the behaviour policy.
      top_tokens: number of most likely actions to keep, at most V.

    Raises:
      ValueError: there are too many trajectories, or the logits have another shape.
    """
    expected = (environment.num_observations, environment.vocabulary_size)
    if logits.shape != expected:
        raise ValueError(f"logits has shape {logits.shape}, expected {expected}")
    states, actions, mask = (array[None] for array in every_walk(environment))
    legal_actions = environment.legal(jnp.asarray(states))
    # After its end a walk is put into state 0, where an action is legal.
    log_probs = distribution(logits[states], legal_actions, temperature=1.0)
    chosen = jnp.take_along_axis(log_probs, actions[..., None], axis=-1)[..., 0]
    likeliest = (None, None)
    if top_tokens:
        top = jax.lax.top_k(log_probs, min(top_tokens, environment.vocabulary_size))
        likeliest = [jnp.where(mask[..., None], values, 0) for values in top]
    return Trajectories(
        prompts=environment.prompts(jnp.array([0])),
        observations=jnp.asarray(states),
        tokens=jnp.asarray(actions),
        token_mask=jnp.asarray(mask),
        legal_actions=legal_actions,
        behaviour_log_probs=jnp.where(mask, chosen, 0.0),
        behaviour_entropy=jnp.where(mask, entropy(log_probs), 0.0),
        truncated=jnp.zeros(mask.shape[:2], bool),
        top_log_probs=likeliest[0],
        top_tokens=likeliest[1],
    )
