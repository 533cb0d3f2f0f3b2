"""Phases and returns of `interview`, exact by dynamic programming: of the policy of a table, and of the best one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.interview import FIRST_ACT, FIRST_WORD, Interview
from ipsrl.environments.interview_users import ACTS, LEVELS, NEUTRAL, PHASES, WORDS


def log_probs_of(environment: Interview, logits: Array) -> Array:
    """`[S, V]`, log-probabilities of legal actions from the logits of a table, -inf for others."""
    return jax.nn.log_softmax(jnp.where(_legal(environment), logits, -jnp.inf))


@functools.partial(jax.jit, static_argnames="environment")
def course(environment: Interview, log_probs: Array, user: Array | int) -> tuple[Array, Array]:
    """In each turn of dialogues with a user, the distribution of the phase `[turns, phases]`, and the expected reward.

    The environment must have `sees="states"`; differentiable in `log_probs` `[S, V]` of `log_probs_of`.
    """
    kind = environment.kind_of(user)
    transitions = jnp.asarray(environment.moves.transitions, jnp.float32)[kind]
    worth = jnp.asarray(environment.worth)
    blocks = environment.blocks
    # From here on q is the phase before, p the phase of the turn, and t and u, w and v trust and word before and after.
    probs = jnp.exp(log_probs).reshape(-1, len(PHASES), len(WORDS), environment.vocabulary_size)
    phases = probs[..., :FIRST_ACT]
    acts = probs[..., FIRST_ACT:FIRST_WORD].reshape(*phases.shape, len(ACTS))

    def turn(before: Array, number: Array) -> tuple[Array, tuple[Array, Array]]:
        block = number // environment.every
        if environment.hierarchy:
            chosen = jnp.einsum("twq,qwp->twp", before, phases[block])
            before = jnp.where(number % environment.every == 0, chosen, before)
            visits = jnp.einsum("twp,pwpa->twpa", before, acts[blocks])
        else:
            visits = jnp.einsum("twq,qwpa->twpa", before, acts[block])
        reward = jnp.einsum("twpa,tpavu,pv->", visits, transitions, worth)
        after = jnp.einsum("twpa,tpavu->uvp", visits, transitions)
        return after, (visits, reward)

    first = jnp.zeros((LEVELS, len(WORDS), len(PHASES)))
    first = first.at[environment.first_trust(user), NEUTRAL, 0].set(1.0)
    _, (visits, rewards) = jax.lax.scan(turn, first, jnp.arange(environment.turns))
    return visits.sum(axis=(1, 2, 4)), rewards


def best_return(environment: Interview, user: int) -> float:
    """The largest expected return with a user, of a policy that sees kind and trust in every state."""
    transitions = environment.moves.transitions[environment.kind_of(user)]
    values = np.zeros((LEVELS, len(PHASES)))
    for turn in reversed(range(environment.turns)):
        earned = environment.worth[None, :, :, None] + values.T[None, :, None, :]
        values = np.einsum("tpavu,zpvu->tpa", transitions, earned).max(axis=-1)
        if not environment.hierarchy or turn % environment.every == 0:
            values = np.broadcast_to(values.max(axis=-1, keepdims=True), values.shape)
    return float(values[environment.first_trust(user), 0])


def _legal(environment: Interview) -> Array:
    """`[S, V]` bool, the legal actions in each observation, as constants of a program."""
    with jax.ensure_compile_time_eval():
        row = jnp.arange(environment.num_observations)
        acts = environment.hierarchy & (row >= len(PHASES) * len(WORDS) * environment.blocks)
        state = {"position": 1 * acts, "phase": row // len(WORDS) % len(PHASES)}
        return jax.vmap(environment.legal)(state)
