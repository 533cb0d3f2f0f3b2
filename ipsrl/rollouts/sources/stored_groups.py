"""Groups that were not sampled here: preferences, demonstrations, logs with propensities."""

import dataclasses
import functools
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import non_negative, positive
from ipsrl.checking.paths import expanded
from ipsrl.checking.regular_files import read_bytes
from ipsrl.distributed.mesh import replicated, sharded
from ipsrl.environments.environment import Environment, dictates, fields_of
from ipsrl.environments.questions import writes
from ipsrl.policies.policy import Policy
from ipsrl.rewards import ALLOWED, LARGEST, SMALLEST, Reward, rewarded
from ipsrl.rollouts.given_answers import given_answers
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sources.rows import checked_row, numbers_in
from ipsrl.rollouts.sources.source import Actors, Groups, Request, Source, State
from ipsrl.rollouts.verification import verify
from ipsrl.structures import Metrics, Outcomes, Prompts, Trajectories

TABLES = {
    "prompt_index": np.int32,
    "tokens": np.int32,
    "lengths": np.int32,
    "rewards": np.float32,
    "outcome_id": np.int32,
    "log_probs": np.float32,
    "own": np.bool_,
}
AXES = {"prompt_index": 1, "lengths": 2, "rewards": 2, "outcome_id": 2, "log_probs": 3, "own": 3}


@dataclasses.dataclass(frozen=True, eq=False)
class StoredGroups(Source):
    """A table of groups, of which each step gets P, in a random order that is new in each pass through the table.

    A pass leaves out N mod P groups, each time others. Where rewards are given, the environment's rewards of turns do
    not count; where outcomes are given too, nothing is verified.

    The importance ratios of most objectives need the log-probabilities of the policy that gave the answers. Where they
    are not stored, the initial policy scores all answers once; the state is what it found, `[N, G, T]`, and the reward.

    Attributes:
      environment, policy: see their protocols; where prompts have no tokens, answers have one, as in a bandit.
      prompts_per_step: P.
      prompt_index: `[N]` int32.
      tokens, lengths: `[N, G, T]` and `[N, G]`, the answers.
      rewards, outcome_id: `[N, G]`; for those that are None the environment verifies the answers.
      log_probs: `[N, G, T]`, at most 0; None if they are not known. Zeros will do for an objective without an
        importance ratio, such as `supervised`.
      own: `[N, G, T]` bool, False for the tokens that the environment wrote, which count in no loss; None if it wrote
        none.
      temperature: at which the initial policy scores the answers.
      shown: N prompts, in the place of the environment's own, such as those that quote earlier answers.
      right_above: above which of the stored rewards an answer is right; None for the environment's threshold, so that
        stored rewards are on its scale.
      parts: into how many equal parts the table is split; a run with the seed s gets groups of part s mod `parts` only,
        so that runs of one program can have data of their own.

    Raises:
      ValueError: a table has another shape or type, a number is out of its range, the table cannot be split into its
        parts, the environment dictates tokens and `own` is not given, or its prompts have no tokens and its answers
        several.
    """

    environment: Environment
    policy: Policy
    prompts_per_step: int = positive()
    # The checker takes the field before for optional, as it does where any function makes a field.
    prompt_index: np.ndarray  # ty: ignore[invalid-dataclass-field-order]
    tokens: np.ndarray  # ty: ignore[invalid-dataclass-field-order]
    lengths: np.ndarray  # ty: ignore[invalid-dataclass-field-order]
    rewards: np.ndarray | None = None
    outcome_id: np.ndarray | None = None
    log_probs: np.ndarray | None = None
    own: np.ndarray | None = None
    temperature: float = positive(1.0)
    shown: Prompts | None = dataclasses.field(default=None, compare=False)
    right_above: float | None = non_negative(None)
    parts: int = positive(1)

    # A table is no key: two of them are the same only if they are one object.
    __eq__, __hash__ = object.__eq__, object.__hash__

    def __post_init__(self):
        super().__post_init__()
        environment = self.environment
        if self.own is None and dictates(environment):
            raise ValueError("the environment writes tokens of its own, and stored answers do not say which they are")
        if not environment.prompt_length and environment.max_tokens > 1:
            raise ValueError("the policy sees states, and stored answers of several tokens do not say which they are")
        for name, dtype in TABLES.items():
            table = getattr(self, name)
            if table is not None or name in ("prompt_index", "tokens", "lengths"):
                object.__setattr__(self, name, _as_table(name, table, dtype))
        if self.tokens.ndim != 3:
            raise ValueError(f"tokens must have the shape [N, G, T], not {list(self.tokens.shape)}")
        for name, axes in AXES.items():
            table, shape = getattr(self, name), self.tokens.shape[:axes]
            if table is not None and table.shape != shape:
                raise ValueError(f"{name} must have the shape {list(shape)}, as tokens has, not {list(table.shape)}")
        number, _, longest = self.tokens.shape
        if number % self.parts:
            raise ValueError(f"{number} groups cannot be split into {self.parts} equal parts: leave some out")
        if self.prompts_per_step > number // self.parts:
            of_part = f" in each of {self.parts} parts" if self.parts > 1 else ""
            raise ValueError(
                f"a step takes {self.prompts_per_step} groups, but only {number // self.parts} are stored{of_part}"
            )
        if longest > environment.max_tokens:
            raise ValueError(f"tokens has {longest} columns, but answers have at most {environment.max_tokens} tokens")
        if self.shown is not None and not np.array_equal(self.shown.index, self.prompt_index):
            raise ValueError("shown must hold the prompts of prompt_index, in the same order")
        written = np.arange(longest) < self.lengths[..., None]
        _check_range("prompts are numbered", self.prompt_index, environment.num_prompts)
        _check_range("numbers of tokens are", self.lengths, longest + 1)
        _check_range("tokens are numbered", np.where(written, self.tokens, 0), environment.vocabulary_size)
        for name, table, holds, what in (
            ("rewards", self.rewards, ALLOWED.holds, f"numbers that are 0 or of a size from {SMALLEST} to {LARGEST}"),
            (
                "log_probs",
                self.log_probs,
                lambda table: np.isfinite(table) & (table <= 0),
                "logarithms of probabilities, at most 0",
            ),
            ("outcome_id", self.outcome_id, lambda table: table >= -1, "outcomes, or -1 for none"),
        ):
            if table is not None and not holds(table).all():
                raise ValueError(f"{name} must hold {what}, but row {np.argwhere(~holds(table))[0][0] + 1} does not")

    @classmethod
    @checked
    def of(
        cls,
        environment: Environment,
        policy: Policy,
        prompts_per_step: int,
        rows: Iterable[Mapping[str, Any]],
        temperature: float = 1.0,
        right_above: float | None = None,
    ) -> Self:
        """Reads rows such as `{"prompt": 3, "answers": [[5, 2], [7, 2]], "rewards": [1, 0]}`.

        `answers` are token ids; `rewards`, `outcomes`, `log_probs` and `own` (one number, or truth value, for each
        token) are optional, and in all rows or in none. So is `history`, what the prompt quotes: lists of token ids,
        such as an attempt and a critic's words on it. All groups have the same size. Any iterable of dicts will do,
        such as a data source of TensorFlow Datasets.

        Raises:
          ValueError: a row is malformed, or names a prompt or a token that the environment does not have.
        """
        rows = [checked_row(row, number, environment) for number, row in enumerate(_given(rows), start=1)]
        if not rows:
            raise ValueError("no groups are stored: give at least one row")
        keys = set(rows[0])
        for number, row in enumerate(rows, start=1):
            if set(row) != keys:
                raise ValueError(
                    f"row {number} has {', '.join(sorted(row))}, but the first row has {', '.join(sorted(keys))}"
                )
            if len(row["answers"]) != len(rows[0]["answers"]):
                raise ValueError(
                    f"row {number} has {len(row['answers'])} answers, but the first row has {len(rows[0]['answers'])}: "
                    "groups must have the same size"
                )

        def padded(key: str, dtype: type) -> np.ndarray:
            filled = np.zeros((len(rows), len(rows[0]["answers"]), environment.max_tokens), dtype)
            for group, row in zip(filled, rows, strict=True):
                for answer, values in zip(group, row[key], strict=True):
                    with np.errstate(over="ignore"):
                        answer[: len(values)] = values
            return filled

        def optional(key: str) -> np.ndarray | None:
            return np.stack([row[key] for row in rows]) if key in keys else None

        index, shown = np.array([row["prompt"] for row in rows]), None
        if "history" in keys and writes(environment, "prompts_with_history"):
            shown = environment.prompts_with_history(index, [row["history"] for row in rows])
        return cls(
            environment,
            policy,
            prompts_per_step,
            prompt_index=index,
            tokens=padded("answers", np.int32),
            lengths=np.array([list(map(len, row["answers"])) for row in rows]),
            rewards=optional("rewards"),
            outcome_id=optional("outcomes"),
            log_probs=padded("log_probs", np.float32) if "log_probs" in keys else None,
            own=padded("own", np.bool_) if "own" in keys else None,
            shown=shown,
            temperature=temperature,
            right_above=right_above,
        )

    @classmethod
    @checked
    def preferences(
        cls,
        environment: Environment,
        policy: Policy,
        prompts_per_step: int,
        prompt_index: np.ndarray,
        tokens: np.ndarray,
        lengths: np.ndarray | None = None,
        parts: int = 1,
    ) -> Self:
        """Pairs of answers, for objectives such as `dpo`, which have no importance ratio.

        Args:
          environment, policy, prompts_per_step, prompt_index, parts: see the class.
          tokens: `[N, 2, T]`, of the answer that is preferred and of the other one.
          lengths: `[N, 2]`; T by default.
        """
        tokens = np.asarray(tokens)
        if lengths is None:
            lengths = np.full(tokens.shape[:2], tokens.shape[-1])
        preferred = np.tile([1, 0], (len(tokens), 1))
        answers = tokens, lengths, preferred, preferred, np.zeros(tokens.shape)
        return cls(environment, policy, prompts_per_step, prompt_index, *answers, parts=parts)

    @classmethod
    @checked
    def read(
        cls,
        path: str | Path,
        environment: Environment,
        policy: Policy,
        prompts_per_step: int,
        temperature: float = 1.0,
        right_above: float | None = None,
    ) -> Self:
        """Reads a file with one such row in JSON in each line.

        Raises:
          ValueError: as `of`, with the line's number, the file cannot be read, or a line is no JSON object.
        """
        try:
            lines = read_bytes(expanded(path, "the file of groups")).decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"the groups in {path} cannot be read: {error}") from None
        rows = []
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise ValueError(f"line {number} of {path} is not a JSON object: mend or delete it")
            rows.append(row)
        return cls.of(environment, policy, prompts_per_step, rows, temperature, right_above)

    @property
    def group_size(self) -> int:
        """G."""
        return self.tokens.shape[1]

    @property
    def on_host(self) -> bool:
        return not self._is_verified and self.environment.verifies_on_host

    @property
    def _is_verified(self) -> bool:
        return self.rewards is not None and self.outcome_id is not None

    @property
    def optional_fields(self) -> frozenset[str]:
        """Optional fields of environment and policy, except those that stored rewards or outcomes replace."""
        fields = fields_of(self.environment) | self.policy.optional_fields
        if self._is_verified:
            return fields - {field.name for field in dataclasses.fields(Outcomes)}
        return fields if self.rewards is None else fields - {"step_rewards", "reward_parts"}

    @functools.cached_property
    def checksum(self) -> int:
        found = 0
        for name in TABLES:
            if (table := getattr(self, name)) is not None:
                found = zlib.crc32(np.ascontiguousarray(table).data, found)
        return found if self.shown is None else zlib.crc32(np.ascontiguousarray(self.shown.tokens).data, found)

    @property
    def stale(self) -> bool:
        return True

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        if self.log_probs is not None:
            return replicated((None, reward))
        size = self.prompts_per_step
        blocks = [
            np.arange(first, first + size) % len(self.prompt_index) for first in range(0, len(self.prompt_index), size)
        ]
        scores = [
            # One after the other, so that no device falls behind: see `hosts.to_host`.
            jax.block_until_ready(
                _scored(self.policy, actors.policy, sharded(self._answers(rows, None)), self.temperature)
            )
            for rows in blocks
        ]
        return replicated((jnp.concatenate(scores)[: len(self.prompt_index)], reward))

    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        scores, reward = state
        rows = self._rows(request)
        log_probs = scores[rows] if self.log_probs is None else _taken(self.log_probs, rows)
        trajectories = sharded(self._answers(rows, log_probs))
        tables = {"rewards": self.rewards, "outcome_id": self.outcome_id}
        given = {name: sharded(_taken(table, rows)) for name, table in tables.items() if table is not None}
        if self._is_verified:
            outcomes = Outcomes(**given, right_above=getattr(self.environment, "right_above", 0.0))
        else:
            outcomes = dataclasses.replace(sharded(verify(self.environment, trajectories)), **given)
        if self.rewards is not None:
            outcomes = dataclasses.replace(outcomes, step_rewards=None, reward_parts=None)
            if self.right_above is not None:
                outcomes = dataclasses.replace(outcomes, right_above=self.right_above)
        outcomes, reward = rewarded(reward, trajectories, outcomes, request.key("reward"))
        return (scores, reward), (trajectories, outcomes), {}

    def reward_of(self, state: State) -> Reward | None:
        return state[1]

    def _rows(self, request: Request) -> Array | np.ndarray:
        """`[P]`, the groups of a step; on the host if the step is known there, so that no table goes to the device."""
        stored, size = len(self.prompt_index) // self.parts, self.prompts_per_step
        number, place = request.step // (stored // size), request.step % (stored // size)
        rows = _order(request.seed, number, stored)[place * size + np.arange(size)]
        rows += request.seed % self.parts * stored
        return rows if isinstance(rows, Tracer) else np.asarray(rows)

    def _answers(self, rows: Array | np.ndarray, log_probs: Array | None) -> Trajectories:
        tokens, lengths = (_taken(table, rows) for table in (self.tokens, self.lengths))
        index = self.prompt_index[rows] if isinstance(rows, np.ndarray) else jnp.asarray(self.prompt_index)[rows]
        if self.shown is None:
            prompts = self.environment.prompts(index)
        else:
            prompts = jax.tree.map(lambda table: _taken(table, rows), self.shown)
        own = None if self.own is None else _taken(self.own, rows)
        return _given_answers(prompts, tokens, lengths, log_probs, own)


_given_answers = jax.jit(given_answers)


@functools.partial(jax.jit, static_argnames="stored")
def _order(seed: Array | int, number: Array | int, stored: int) -> Array:
    """`[N]`, the order of the groups in a pass through the table."""
    return jax.random.permutation(stream(seed, number, "stored groups"), stored)


def _taken(table: np.ndarray, rows: Array | np.ndarray) -> Array:
    """Rows of a table that lies on the host, as an array."""
    return jnp.asarray(table[rows]) if isinstance(rows, np.ndarray) else jnp.asarray(table)[rows]


@functools.partial(jax.jit, static_argnames=("policy", "temperature"))
def _scored(policy: Policy, parameters: Any, trajectories: Trajectories, temperature: float) -> Array:
    return policy.score(parameters, trajectories, temperature).log_probs


def _given(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The rows; a ValueError with the number of the row at which they end in an error."""
    number = 1
    try:
        for row in rows:
            yield row
            number += 1
    except Exception as error:
        raise ValueError(f"row {number} cannot be read: {type(error).__name__}: {error}") from error


def _as_table(name: str, given: Any, dtype: type) -> np.ndarray:
    table = numbers_in(given, {np.int32: "iu", np.bool_: "b"}.get(dtype, "biuf"))
    if table is None:
        what = {np.int32: "integers of 32 bits", np.bool_: "True or False"}.get(dtype, "finite numbers")
        raise ValueError(f"{name} must hold {what}, in rows of the same length")
    # What 32 bits cannot hold is found by the range of each table.
    with np.errstate(over="ignore"):
        return table.astype(dtype)


def _check_range(what: str, table: np.ndarray, count: int) -> None:
    """Raises ValueError unless all numbers of a table `[N, ...]` are in 0 to `count` - 1."""
    outside = np.argwhere((table < 0) | (table >= count))
    if len(outside):
        raise ValueError(f"{what} 0 to {count - 1}, but row {outside[0][0] + 1} has {table[tuple(outside[0])]}")
