"""Phases and returns of `interview`, exact by dynamic programming: of the policy of a table, and of the best one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.agents.interview import FIRST_ACT, FIRST_WORD, Interview
from ipsrl.environments.agents.interview_users import ACTS, LEVELS, NEUTRAL, PHASES, WORDS


def log_probs_of(environment: Interview, logits: Array) -> Array:
    """`[S, V]`, log-probabilities of legal actions from the logits of a table, -inf for others."""
    of_legal = jnp.where(_legal(environment), logits, -jnp.inf)
    return jax.nn.log_softmax(of_legal)


@functools.partial(jax.jit, static_argnames="environment")
def course(environment: Interview, log_probs: Array, user: Array | int) -> tuple[Array, Array]:
    """The distribution of the phase in each turn of dialogues with a user, `[turns, phases]`, and the expected reward.

    The environment must have `sees="states"`; differentiable in `log_probs` `[S, V]` of `log_probs_of`.
    """
    kind = environment.kind_of(user)
    of_kinds = jnp.asarray(environment.moves.transitions, jnp.float32)
    transitions = of_kinds[kind]
    worth = jnp.asarray(environment.worth)
    blocks = environment.blocks
    # From here on q is the phase before, p the phase of the turn, and t and u, w and v trust and word before and after.
    rows = -1, len(PHASES), len(WORDS)
    probs = jnp.exp(log_probs).reshape(*rows, environment.vocabulary_size)
    phases = probs[..., :FIRST_ACT]
    acts = probs[..., FIRST_ACT:FIRST_WORD].reshape(*phases.shape, len(ACTS))

    def turn(before, number):
        block = number // environment.every
        if environment.hierarchy:
            chosen = jnp.einsum("twq,qwp->twp", before, phases[block])
            chooses = number % environment.every == 0
            before = jnp.where(chooses, chosen, before)
            visits = jnp.einsum("twp,pwpa->twpa", before, acts[blocks])
        else:
            visits = jnp.einsum("twq,qwpa->twpa", before, acts[block])
        reward = jnp.einsum("twpa,tpavu,pv->", visits, transitions, worth)
        after = jnp.einsum("twpa,tpavu->uvp", visits, transitions)
        return after, (visits, reward)

    trust = environment.first_trust(user)
    nowhere = jnp.zeros((LEVELS, len(WORDS), len(PHASES)))
    first = nowhere.at[trust, NEUTRAL, 0].set(1.0)
    turns = jnp.arange(environment.turns)
    _, (visits, rewards) = jax.lax.scan(turn, first, turns)
    of_phases = visits.sum(axis=(1, 2, 4))
    return of_phases, rewards


def best_return(environment: Interview, user: int) -> float:
    """The largest expected return with a user, of a policy that sees kind and trust in every state."""
    kind = environment.kind_of(user)
    transitions = environment.moves.transitions[kind]
    values = np.zeros((LEVELS, len(PHASES)))
    for turn in reversed(range(environment.turns)):
        earned = environment.worth[None, :, :, None] + values.T[None, :, None, :]
        values = np.einsum("tpavu,zpvu->tpa", transitions, earned).max(axis=-1)
        chooses = turn % environment.every == 0
        if chooses or not environment.hierarchy:
            best = values.max(axis=-1, keepdims=True)
            values = np.broadcast_to(best, values.shape)
    trust = environment.first_trust(user)
    return float(values[trust, 0])


def _legal(environment: Interview) -> Array:
    """`[S, V]` bool, the legal actions in each observation, as constants of a program."""
    with jax.ensure_compile_time_eval():
        row = jnp.arange(environment.num_observations)
        of_master = len(PHASES) * len(WORDS) * environment.blocks
        acts = environment.hierarchy & (row >= of_master)
        phase = row // len(WORDS) % len(PHASES)
        state = {"position": 1 * acts, "phase": phase}
        return jax.vmap(environment.legal)(state)
