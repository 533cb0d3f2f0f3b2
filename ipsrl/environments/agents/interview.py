"""Motivational interviewing: a manager talks with simulated users, who differ in what they open up to."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import Checked, between, one_of
from ipsrl.environments.agents.interview_users import (
    ACTS,
    KINDS,
    NEUTRAL,
    OPENS,
    PHASES,
    SHARED,
    WORDS,
    Moves,
    moves_of,
)
from ipsrl.environments.environment import OutcomeSpace
from ipsrl.environments.token_stream import TokenStream
from ipsrl.structures import Outcomes, Prompts, Sizes, Trajectories

FIRST_ACT = len(PHASES)
FIRST_WORD = FIRST_ACT + len(PHASES) * len(ACTS)
TALK = 5.0
"""The reward of change talk, and the cost of sustain talk."""
BONUSES = {"published": (50.0, 100.0, 150.0, 200.0), "equalised": (125.0,) * len(PHASES)}
"""Rewards of each phase when the user opens up; equalised bonuses have the same mean."""

State = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class Interview(Checked, TokenStream):
    """A dialogue of `turns` turns. A prompt is a user, whose kind and trust (0 to 4) the policy does not see.

    Every `every` turns a master chooses a phase (engaging, focusing, evoking, planning), by a token; in each turn a
    sub-policy chooses one of the three acts of this phase (ask, reflect, advise), by another; and the user replies with
    a word, which the environment dictates. Without `hierarchy` there is no token for the phase, and each act may be any
    of the twelve. Tokens are 4 phases, then 3 acts of each phase, then 4 words.

        every = 2:  evoking | evoking: ask  "change talk" | evoking: reflect  "opens up" | planning | ...

    Reply and trust after it depend at random on kind, trust, phase and act, by the key of `reset`; the tables are in
    `ipsrl.environments.agents.interview_users`. The act earns what it is answered by: 5 for change talk, -5 for sustain
    talk, nothing for a neutral word, and the bonus of the phase if the user opens up: shares feelings, facts, a new
    perspective or a plan. The reward is their sum.

    The outcome is the phase with the most turns, the first of these in a tie, so that diversity of outcomes is that of
    phases. User u is of the kind u mod K, and begins with a trust of (u // K) mod 3 and a neutral word.

    Observations are either the token before (`sees="tokens"`, for a policy that remembers), or numbers for a table,
    which show the last phase (at first engaging), the last word, and, to the master or without hierarchy, the block of
    `every` turns, all numbered from 0: 16 block + 4 phase + word. To sub-policies the block is the one after the last.

    Source: arXiv 2506.19652. Known to us are the phases, master and sub-policies, the three kinds of users, and the
    numbers of the rewards. That a bonus is for a user who opens up, four turns to a choice of the master, forty turns,
    the acts, observations and users themselves are our reading; there, a language model words the acts.

    Attributes:
      users: number of prompts, at least one of each kind.
      kinds: different ones of `open`, `resistant` and `receptive`.
      turns: of a dialogue, a multiple of `every`.
      every: turns for which a choice of the master holds.
      bonuses: `published` (50, 100, 150 and 200) or `equalised` (125 for each phase).
      hierarchy: whether there is a master.
      sees: `states` or `tokens`.

    Raises:
      ValueError: a field is out of range.
    """

    users: int = between(1, 4096, 63)
    kinds: tuple[str, ...] = one_of(*KINDS, default=tuple(KINDS))
    turns: int = between(1, 400, 40)
    every: int = between(1, 400, 4)
    bonuses: str = one_of(*BONUSES, default="published")
    hierarchy: bool = True
    sees: str = one_of("states", "tokens", default="states")

    vocabulary_size: ClassVar[int] = FIRST_WORD + len(WORDS)
    stop_tokens: ClassVar[tuple[int, ...]] = ()
    verifies_on_host: ClassVar[bool] = False
    optional_fields: ClassVar[frozenset[str]] = frozenset({"step_rewards", "planning_mask"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise ValueError(f"kinds is {self.kinds!r}, it must have one kind of user or more, each once")
        if self.users < len(self.kinds):
            raise ValueError(f"users is {self.users}, it must be at least the number of kinds, {len(self.kinds)}")
        if self.turns % self.every:
            raise ValueError(f"turns is {self.turns}, it must be a multiple of every, {self.every}")

    @functools.cached_property
    def prompt_table(self) -> Prompts:
        shape = (self.users, 1)
        return Prompts(np.arange(self.users), np.full(shape, FIRST_WORD + NEUTRAL, np.int32), np.ones(shape, bool))

    @property
    def blocks(self) -> int:
        """Number of choices of the master."""
        return self.turns // self.every

    @property
    def _block(self) -> int:
        """Tokens of a block."""
        return 2 * self.every + self.hierarchy

    @property
    def max_tokens(self) -> int:
        return self.blocks * self._block

    @property
    def num_observations(self) -> int:
        if self.sees == "tokens":
            return self.vocabulary_size
        return len(PHASES) * len(WORDS) * (self.blocks + self.hierarchy)

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.users, len(PHASES), None, self.vocabulary_size)

    def kind_of(self, user: Array | int) -> Array | int:
        """The place of a user's kind in `kinds`."""
        return user % len(self.kinds)

    def first_trust(self, user: Array | int) -> Array | int:
        """The trust with which a user begins."""
        return user // len(self.kinds) % 3

    @property
    def moves(self) -> Moves:
        """The probabilities by which users of these kinds reply."""
        return moves_of(self.kinds)

    @property
    def worth(self) -> np.ndarray:
        """`[phases, words]` float32, what a reply in a phase earns."""
        of_words = np.tile(np.float32([-TALK, 0, TALK, 0]), (len(PHASES), 1))
        of_words[:, OPENS] = BONUSES[self.bonuses]
        return of_words

    def reset(self, key: Array, prompt_index: Array, member: Array) -> State:
        number = jnp.int32(0)
        return {
            "key": key,
            "user": jnp.int32(prompt_index),
            "trust": jnp.int32(self.first_trust(prompt_index)),
            "position": number,
            "phase": number,
            "word": jnp.int32(NEUTRAL),
            "last": jnp.int32(self.prompt_table.tokens[0, -1]),
        }

    def _turn(self, position: Array) -> tuple[Array, Array, Array]:
        """The block of a token, whether the master chooses it, and whether the user says it."""
        block, place = position // self._block, position % self._block
        return block, (place == 0) & self.hierarchy, (place > 0) & (place % 2 == 1 - self.hierarchy)

    def observe(self, state: State) -> Array:
        if self.sees == "tokens":
            return state["last"]
        block, chooses, _ = self._turn(state["position"])
        row = jnp.where(chooses | (not self.hierarchy), block, self.blocks)
        return len(WORDS) * (len(PHASES) * row + state["phase"]) + state["word"]

    def legal(self, state: State) -> Array:
        _, chooses, _ = self._turn(state["position"])
        token = jnp.arange(self.vocabulary_size)
        acts = (token >= FIRST_ACT) & (token < FIRST_WORD)
        if self.hierarchy:
            acts &= (token - FIRST_ACT) // len(ACTS) == state["phase"]
        return jnp.where(chooses, token < FIRST_ACT, acts)

    def dictated(self, state: State) -> Array:
        return jnp.where(self._turn(state["position"])[2], FIRST_WORD + state["word"], -1)

    def step(self, state: State, token: Array) -> State:
        token = jnp.asarray(token, jnp.int32)
        _, chooses, speaks = self._turn(state["position"])
        acts = ~chooses & ~speaks
        act = (token - FIRST_ACT) % len(ACTS)
        phase = jnp.where(chooses, token, jnp.where(acts, (token - FIRST_ACT) // len(ACTS), state["phase"]))
        chance = jax.random.uniform(jax.random.fold_in(state["key"], state["position"]), (2,))
        word, trust = self.moves.reply(chance, self.kind_of(state["user"]), state["trust"], phase, act)
        after = {"phase": phase, "position": state["position"] + 1, "last": token}
        replied = {"word": jnp.where(acts, word, state["word"]), "trust": jnp.where(acts, trust, state["trust"])}
        return state | after | replied

    def finished(self, state: State) -> Array:
        return state["position"] == self.max_tokens

    def verify(self, trajectories: Trajectories) -> Outcomes:
        """Computed from the tokens alone, so that stored dialogues can be verified as well; may be called in jit."""
        tokens = jnp.asarray(trajectories.tokens, jnp.int32)
        _, chooses, speaks = self._turn(jnp.arange(self.max_tokens))
        phase = jnp.where(~chooses & ~speaks, (tokens - FIRST_ACT) // len(ACTS), -1)
        reply = jnp.roll(tokens, -1, axis=-1) - FIRST_WORD
        earned = jnp.where(phase >= 0, jnp.asarray(self.worth)[phase, reply], 0.0)
        turns = (phase[..., None] == jnp.arange(len(PHASES))).sum(axis=-2)
        planning = trajectories.token_mask & (chooses | (not self.hierarchy))
        return Outcomes(
            earned.sum(axis=-1), turns.argmax(axis=-1).astype(jnp.int32), planning_mask=planning, step_rewards=earned
        )

    def outcome_space(self, prompt: int) -> OutcomeSpace:
        raise ValueError(
            "the reward of an interview is not that of its outcome: experiments.dialogue_users.interview_exact has it"
        )

    def phases(self, tokens: np.ndarray) -> np.ndarray:
        """`[..., turns]`, the phase of each turn of dialogues `[..., T]`."""
        _, chooses, speaks = self._turn(np.arange(self.max_tokens))
        return (np.asarray(tokens)[..., ~chooses & ~speaks] - FIRST_ACT) // len(ACTS)

    def in_words(self, tokens: np.ndarray) -> list[str]:
        """A line for each turn of a dialogue `[T]`."""
        tokens = np.asarray(tokens)
        _, chooses, speaks = self._turn(np.arange(self.max_tokens))
        turns = zip(self.phases(tokens), tokens[~chooses & ~speaks], tokens[speaks] - FIRST_WORD, strict=True)
        return [
            f"{PHASES[phase]}: {ACTS[(act - FIRST_ACT) % len(ACTS)]:<8} "
            f"{SHARED[phase] if reply == OPENS else WORDS[reply]}"
            for phase, act, reply in turns
        ]
