"""Exact returns of `interview` by dynamic programming: of the policy that a table describes, and of the best one."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.interview import FIRST_ACT, FIRST_WORD, Interview
from ipsrl.environments.interview_users import ACTS, LEVELS, NEUTRAL, PHASES, WORDS


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Course:
    """What happens in dialogues with one user.

    Attributes:
      visits: `[turns, LEVELS, words, phases, acts]` float32, the probability of trust and last word before a turn, with
        its phase and act.
      rewards: `[turns]` float32, expected reward of each turn.
    """

    visits: Array
    rewards: Array

    @property
    def phases(self) -> Array:
        """`[turns, phases]`, the distribution of the phase in each turn."""
        return self.visits.sum(axis=(1, 2, 4))


def log_probs_of(environment: Interview, logits: Array) -> Array:
    """`[S, V]`, log-probabilities of legal actions from the logits of a table, -inf for others."""
    return jax.nn.log_softmax(jnp.where(jnp.asarray(_legal(environment)), logits, -jnp.inf))


@functools.partial(jax.jit, static_argnames="environment")
def course(environment: Interview, log_probs: Array, user: Array | int) -> Course:
    """The exact course of dialogues; differentiable in `log_probs` `[S, V]` of `log_probs_of`.

    The environment must have `sees="states"`.
    """
    kind = environment.kind_of(user)
    transitions = jnp.asarray(environment.moves.transitions, jnp.float32)[kind]
    worth = jnp.asarray(environment.worth)
    blocks = environment.blocks
    # From here on q is the phase before, p the phase of the turn, and t and u, w and v trust and word before and after.
    probs = jnp.exp(log_probs).reshape(-1, len(PHASES), len(WORDS), environment.vocabulary_size)
    phases = probs[..., :FIRST_ACT]
    acts = probs[..., FIRST_ACT:FIRST_WORD].reshape(*phases.shape, len(ACTS))

    def turn(before: Array, number: Array) -> tuple[Array, Course]:
        block = number // environment.every
        if environment.hierarchy:
            chosen = jnp.einsum("twq,qwp->twp", before, phases[block])
            before = jnp.where(number % environment.every == 0, chosen, before)
            visits = jnp.einsum("twp,pwpa->twpa", before, acts[blocks])
        else:
            visits = jnp.einsum("twq,qwpa->twpa", before, acts[block])
        reward = jnp.einsum("twpa,tpavu,pv->", visits, transitions, worth)
        after = jnp.einsum("twpa,tpavu->uvp", visits, transitions)
        return after, Course(visits, reward)

    first = jnp.zeros((LEVELS, len(WORDS), len(PHASES)))
    first = first.at[environment.first_trust(user), NEUTRAL, 0].set(1.0)
    _, found = jax.lax.scan(turn, first, jnp.arange(environment.turns))
    return found


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


@functools.cache
def _legal(environment: Interview) -> np.ndarray:
    """`[S, V]` bool, the legal actions in each observation."""
    if environment.sees != "states":
        raise ValueError(
            f"sees is {environment.sees!r}: the tokens before do not determine what is legal, take states"
        )
    token = np.arange(environment.vocabulary_size)
    acts = (token >= FIRST_ACT) & (token < FIRST_WORD)
    observations = len(PHASES) * len(WORDS) * environment.blocks
    if not environment.hierarchy:
        return np.tile(acts, (observations, 1))
    phases = np.repeat(np.arange(len(PHASES)), len(WORDS))[:, None]
    of_phase = acts & ((token - FIRST_ACT) // len(ACTS) == phases)
    of_master = np.tile(token < FIRST_ACT, (observations, 1))
    return np.concatenate([of_master, of_phase])
