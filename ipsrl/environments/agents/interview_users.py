"""The simulated users of `interview`: three kinds, who trust more or less, as tables of probabilities; all ours."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from jax import Array

PHASES = ("engaging", "focusing", "evoking", "planning")
ACTS = ("ask", "reflect", "advise")
WORDS = ("sustain talk", "neutral", "change talk", "opens up")
SUSTAIN, NEUTRAL, CHANGE, OPENS = range(len(WORDS))
SHARED = ("shares feelings", "shares facts", "finds a new perspective", "makes a plan")
"""The act of a user who opens up, in each phase."""
LEVELS = 5
"""Number of levels of trust, 0 to 4."""

USUAL, FAVOURITE = 0.25, 0.6
"""Probability that a user opens up who is asked in a phase that fits, and in the favourite one of the kind."""


@dataclasses.dataclass(frozen=True)
class UserKind:
    """A kind of user.

    Attributes:
      needs: the trust from which each phase fits.
      favourite: the phase in which the user opens up most.
    """

    needs: tuple[int, ...]
    favourite: int


KINDS = {
    "open": UserKind((0, 0, 1, 2), 3),
    "resistant": UserKind((0, 2, 3, 4), 0),
    "receptive": UserKind((0, 1, 2, 3), 1),
}

REPLIES = {
    True: {"ask": (0.05, 0.15, 1.0), "reflect": (0.02, 0.2, 0.5), "advise": (0.2, 0.1, 0.8)},
    False: {"ask": (0.6, 0.05, 0.0), "reflect": (0.3, 0.05, 0.0), "advise": (0.8, 0.02, 0.0)},
}
"""Whether the phase fits -> act -> probability of sustain talk, of change talk, and the factor of opening up."""

FALL, RISE, RISE_BY_REFLECTION = 0.5, 0.2, 0.5
"""Probability that trust falls by one after sustain talk; that it rises by one after change talk or opening up; and
after any other reply than sustain talk to a reflection."""


@dataclasses.dataclass(frozen=True)
class Moves:
    """The probabilities of replies, and of the change of trust after them, of users of some kinds.

    Attributes:
      words: `[kinds, LEVELS, phases, acts, words]` float32, probabilities of the reply.
      rises, falls: `[acts, words]` float32, probabilities that trust rises or falls by one after a reply, if it can.
    """

    words: np.ndarray
    rises: np.ndarray
    falls: np.ndarray

    def reply(self, chance: Array, kind: Array, trust: Array, phase: Array, act: Array) -> tuple[Array, Array]:
        """The reply and the trust after it, `[]` int32, by two uniform random numbers `chance` `[2]`."""
        bounds = jnp.asarray(self.words.cumsum(axis=-1)[..., :-1])[kind, trust, phase, act]
        word = (chance[0] >= bounds).sum().astype(jnp.int32)
        rises = chance[1] < jnp.asarray(self.rises)[act, word]
        falls = chance[1] >= 1 - jnp.asarray(self.falls)[act, word]
        return word, jnp.clip(trust + rises - falls, 0, LEVELS - 1)

    @functools.cached_property
    def transitions(self) -> np.ndarray:
        """`[kinds, LEVELS, phases, acts, words, LEVELS]` float64, joint probabilities of reply and trust after it."""
        trust = np.arange(LEVELS)
        up, down = (np.eye(LEVELS)[np.clip(trust + by, 0, LEVELS - 1)] for by in (1, -1))
        rises, falls = (table.astype(np.float64)[..., None, None] for table in (self.rises, self.falls))
        moved = rises * up + falls * down + (1 - rises - falls) * np.eye(LEVELS)
        return np.einsum("ktpaw,awtu->ktpawu", self.words.astype(np.float64), moved)


@functools.cache
def moves_of(kinds: tuple[str, ...]) -> Moves:
    """The tables of some kinds of users."""
    words = np.zeros((len(kinds), LEVELS, len(PHASES), len(ACTS), len(WORDS)))
    for place in np.ndindex(words.shape[:-1]):
        kind, trust, phase, act = KINDS[kinds[place[0]]], *place[1:]
        sustain, change, factor = REPLIES[trust >= kind.needs[phase]][ACTS[act]]
        opens = factor * (FAVOURITE if phase == kind.favourite else USUAL)
        words[place] = sustain, 1 - sustain - change - opens, change, opens
    rises = np.zeros((len(ACTS), len(WORDS)))
    rises[:, [CHANGE, OPENS]] = RISE
    rises[ACTS.index("reflect"), NEUTRAL:] = RISE_BY_REFLECTION
    falls = np.zeros_like(rises)
    falls[:, SUSTAIN] = FALL
    return Moves(*(table.astype(np.float32) for table in (words, rises, falls)))
