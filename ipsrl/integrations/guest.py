"""An objective as a guest in someone else's trainer: weights of whole batches, the loss of parts of them, and state."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from ipsrl import objectives
from ipsrl.checking.arguments import accepted, shown
from ipsrl.integrations.loss_of_rows import count_rows, couples_answers, loss_and_gradients, weigh_rows
from ipsrl.integrations.refusals import refusal
from ipsrl.integrations.rows import Rows, canonical, groups_of, numbered, outcome_names
from ipsrl.objectives.objective import Objective
from ipsrl.rewards import ALLOWED
from ipsrl.rollouts.randomness import stream
from ipsrl.structures import Metrics, Sizes, Weights
from ipsrl.training.behaviour import BEHAVIOUR, fields_read
from ipsrl.training.sparse_adam import sparse_adam

STATE_FILE = "ipsrl_objective.safetensors"
"""The file of the state in a trainer's checkpoint."""
NAMING = "by value"
"""The naming of prompts and outcomes in the state, see `rows.canonical`."""
OF_RIGHT = ("group_distinct_outcomes", "group_effective_outcomes", "group_largest_outcome_share")
"""Metrics of right answers alone."""
FIRST_PROMPTS, FIRST_OUTCOMES = 1024, 16
"""Prompts, and outcomes of each, for which there is room at first; it is doubled when there are more, and programs are
compiled again."""


class GuestObjective:
    """An objective, what its parts carry from batch to batch, and what it learns itself (log Z).

    A batch is weighed once, by `weigh`; `loss` may then be asked for parts of it. Prompts have names that last from
    batch to batch (`rows.canonical`), and are numbered as they come. So are the outcomes of a prompt, if the objective
    keeps a table of them: each of them takes about 150 bytes, and each prompt four bytes for each outcome of the prompt
    that has the most.

    Args:
      objective: or its specification, such as "ips_grpo(floor=0.2)".
      group_size: G, answers to a prompt in a group.
      trainer: its name, in messages.
      provides: the optional fields of `Rollouts` that the rows have.
      seed: of objectives that sample at random.
      right_above: an answer is right if its reward is above this number, as `Outcomes.right_above`. None is 0, but
        where the objective tells right answers from wrong ones, rewards of several positive sizes are then refused.

    Attributes:
      given_right_above, right_above: as it was given; and the number, 0 for None.
      tells_right: whether the objective tells right answers from wrong ones.
      reads_behaviour: whether the weights depend on the probabilities by which tokens were sampled.
      learns: whether the objective has parameters of its own.

    Raises:
      ValueError: there is no such objective, or it cannot be computed from such rows (`refusal`).
    """

    def __init__(
        self,
        objective: Objective | str,
        group_size: int,
        trainer: str,
        provides: frozenset[str] = frozenset(),
        seed: int = 0,
        right_above: float | None = None,
    ):
        if (accepted("right_above", right_above, float | None) or 0.0) < 0:
            raise ValueError(f"right_above is {right_above}, it must not be negative: no reward is never right")
        self.given_right_above, self.right_above = right_above, float(right_above or 0.0)
        self.objective = objectives.make(objective) if isinstance(objective, str) else objective
        if refused := refusal(self.objective, group_size, trainer, provides):
            raise ValueError(refused)
        self.group_size, self.seed = group_size, seed
        self.learns = bool(jax.tree.leaves(self.objective.init_parameters(Sizes(1))))
        self.batches = 0
        self._numbers: dict[str, int] = {}
        self._outcomes: list[dict[str, int]] = []
        self._keeps_outcomes = self._shapes(Sizes(1, 1)) != self._shapes(Sizes(1, 2))
        self._kept = self._fresh()
        self._gradients = None

    # Each is found by running the loss, which takes a second to compile, and few trainers ask for all.
    @functools.cached_property
    def reads_behaviour(self) -> bool:
        return not BEHAVIOUR.isdisjoint(fields_read(self.objective, self.group_size, loss=False))

    @functools.cached_property
    def tells_right(self) -> bool:
        return "right_above" in fields_read(self.objective, self.group_size)

    def _shapes(self, sizes: Sizes) -> list[tuple[int, ...]]:
        return [np.shape(leaf) for leaf in jax.tree.leaves(self.objective.init(sizes))]

    def _fresh(self) -> dict[str, Any]:
        """The state before the first batch, with room for the prompts and outcomes that have numbers."""
        parameters = self.objective.init_parameters(self._sizes)
        optimizer_state = sparse_adam(self.objective.surrogate.learning_rate).init(parameters)
        return {"state": self.objective.init(self._sizes), "parameters": parameters, "optimizer": optimizer_state}

    @property
    def _sizes(self) -> Sizes:
        most = max(map(len, self._outcomes), default=0)
        return Sizes(_room(len(self._numbers), FIRST_PROMPTS), _room(most, FIRST_OUTCOMES))

    def prompt_index(self, prompts: Sequence[Hashable]) -> np.ndarray:
        """`[B]` int32, the number of each prompt; a new one gets the next."""
        before = self._sizes
        index = np.array([_number_of(canonical(prompt), self._numbers) for prompt in prompts], np.int32)
        self._grow(before)
        return index

    def outcome_id(self, prompts: Sequence[Hashable], outcomes: Sequence[Hashable | None]) -> np.ndarray:
        """`[B]` int32, the number of each outcome, equal within a prompt where outcomes are; -1 for None and NaN.

        If the objective keeps a table of outcomes, a number is for all batches; otherwise for this one.

        Raises:
          ValueError: an outcome is not hashable, or has no name for the table.
        """
        if not self._keeps_outcomes:
            return numbered(outcomes)
        index = self.prompt_index(prompts)
        before = self._sizes
        self._outcomes += [{} for _ in range(len(self._numbers) - len(self._outcomes))]
        found = [
            -1 if name is None else _number_of(name, self._outcomes[prompt])
            for prompt, name in zip(index, outcome_names(outcomes), strict=True)
        ]
        self._grow(before)
        return np.array(found, np.int32)

    def _grow(self, before: Sizes) -> None:
        if self._sizes != before:
            self._kept = jax.tree.map(_grown, self._kept, self._fresh())

    def weigh(self, rows: Rows, carry: bool = True) -> tuple[Weights, Metrics]:
        """The weights of the rows of a batch, `[B, T]`, and metrics as `(sum, count)` pairs; without those of right
        answers if nothing says which are.

        Args:
          rows: of whole groups.
          carry: whether the next batch goes on with what this one changes; False for an evaluation.

        Raises:
          ValueError: a group is not whole, a reward is not finite or of an impossible size, or rewards are graded and
            nothing says which are right.
        """
        rewards = np.asarray(rows.rewards)
        check_rewards(rewards)
        knows_right = self.given_right_above is not None or not is_graded(rewards)
        if not knows_right and self.tells_right:
            positive = rewards[rewards > 0]
            raise ValueError(
                f"the objective tells right answers from wrong ones, and rewards such as {positive.min():g} and "
                f"{positive.max():g} do not say which are right: give right_above, the highest reward of a wrong answer"
            )
        rows = dataclasses.replace(rows, right_above=self.right_above)
        groups = groups_of(np.asarray(rows.prompt_index).tolist(), self.group_size)
        key = stream(self.seed, self.batches, "objective")
        weights, state, metrics = weigh_rows(self.objective, groups, rows, self._kept["state"], key)
        if carry:
            self._kept["state"] = state
            self.batches += 1
        return weights, {name: pair for name, pair in metrics.items() if knows_right or name not in OF_RIGHT}

    def loss(
        self, log_probs: Array, entropy: Array, rows: Rows, weights: Weights, count: Array | float
    ) -> tuple[Array, tuple[Array, Array], Metrics]:
        """The loss of rows that were weighed, divided by `count`.

        Args:
          log_probs, entropy: `[B, T]`, of the policy being trained.
          rows: some of a batch, whole groups if the objective `couples_answers`. Where they have no behaviour policy,
            it is the policy being trained.
          weights: of these rows, from `weigh`.
          count: of the optimiser step that they are a part of, see `count`.

        Returns:
          the loss, its gradients by `log_probs` and `entropy`, and metrics. The gradient by what the objective learns
          itself is added up until `step`.

        Raises:
          ValueError: the objective couples answers, and a group is not whole.
        """
        rows = dataclasses.replace(rows, right_above=self.right_above)
        groups = np.arange(len(log_probs), dtype=np.int32)[:, None]
        if couples_answers(self.objective):
            groups = groups_of(np.asarray(rows.prompt_index).tolist(), self.group_size)
        value, (*by_scores, by_parameters), metrics = loss_and_gradients(
            self.objective, groups, rows, weights, log_probs, entropy, self.parameters, count
        )
        self.learn(by_parameters)
        return value, tuple(by_scores), metrics

    @property
    def parameters(self) -> Any:
        """The parameters that the objective itself learns; an empty dict for most objectives."""
        return self._kept["parameters"]

    def learn(self, gradients: Any) -> None:
        """Adds up gradients by `parameters` until `step`. `loss` does so itself."""
        if jax.tree.leaves(gradients):
            before = self._gradients
            self._gradients = gradients if before is None else jax.tree.map(jnp.add, before, gradients)

    def count(self, token_mask: Array) -> Array:
        """The divisor of the loss of some rows, `[B, T]`: their answers or tokens. Those of parts can be added up."""
        return count_rows(self.objective.aggregation, token_mask)

    def step(self) -> None:
        """Moves what the objective learns itself, after the policy's optimiser step."""
        if self._gradients is not None:
            parameters, optimizer_state = self._kept["parameters"], self._kept["optimizer"]
            moved = _moved(self.objective.surrogate.learning_rate, self._gradients, parameters, optimizer_state)
            self._kept["parameters"], self._kept["optimizer"] = moved
            self._gradients = None

    def saved(self) -> bytes:
        """All that is carried from batch to batch, in the format of safetensors."""
        leaves = {str(number): np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(self._kept))}
        names = {"prompts": list(self._numbers), "outcomes": list(map(list, self._outcomes))}
        about = {"objective": repr(self.objective), "batches": self.batches, **names, "naming": NAMING}
        return safetensors.save(leaves, {"about": json.dumps(about)})

    def save(self, file: Path) -> None:
        """Writes `saved` to a file."""
        file.write_bytes(self.saved())

    def load(self, file: Path) -> None:
        """Goes on with what `save` wrote; raises ValueError as `resume` does, and if the file is missing."""
        try:
            saved = file.read_bytes()
        except OSError as error:
            raise ValueError(f"the state of the objective cannot be read from {file}: {error}") from error
        self.resume(saved, str(file))

    def resume(self, saved: bytes, place: str) -> None:
        """Goes on with what `saved` gave.

        Args:
          place: where it lay, in messages.

        Raises:
          ValueError: it is of another objective, or damaged.
        """
        try:
            leaves = safetensors.load(saved)
            header = json.loads(saved[8 : 8 + int.from_bytes(saved[:8], "little")])
            about = json.loads(header["__metadata__"]["about"])
            leaves = [leaves[str(number)] for number in range(len(leaves))]
            trained, batches, naming = about["objective"], int(about["batches"]), about.get("naming")
            names = about["prompts"], *about["outcomes"]
            prompts, *outcomes = ({name: number for number, name in enumerate(each)} for each in names)
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state of the objective cannot be read from {place}: {error}") from error
        if naming != NAMING:
            raise ValueError(
                f"{place} was written by another version of ipsrl, which numbered prompts and outcomes by other names: "
                "start afresh"
            )
        if trained != repr(self.objective):
            raise ValueError(
                f"{place} is the state of {trained}, but this run has {self.objective!r}: resume with the "
                "same objective, or start afresh"
            )
        self._numbers, self._outcomes, self.batches = prompts, outcomes, batches
        fresh = self._fresh()
        if [np.shape(leaf) for leaf in jax.tree.leaves(fresh)] != [leaf.shape for leaf in leaves]:
            raise ValueError(f"the state of the objective cannot be read from {place}: its arrays have other shapes")
        self._kept = jax.tree.structure(fresh).unflatten(map(jnp.asarray, leaves))


def check_rewards(rewards: np.ndarray) -> None:
    """Raises ValueError where one of the rewards `[B]` is not a finite number of an allowed size."""
    allowed = np.isfinite(rewards) & ALLOWED.holds(rewards)
    if not allowed.all():
        row = int(np.argmin(allowed))
        raise ValueError(f"the reward of row {row} is {shown(rewards[row].item())}: rewards must {ALLOWED.phrase}")


def is_graded(rewards: np.ndarray) -> bool:
    """Whether rewards have several positive sizes, so that they do not say themselves which answers are right."""
    positive = rewards[rewards > 0]
    return bool(positive.size) and not np.isclose(positive.min(), positive.max())


def _number_of(name: str, numbers: dict[str, int]) -> int:
    """The number of a name; a new name gets the next free number."""
    # Not Python's hash, which is another one in each process.
    return numbers.setdefault(hashlib.sha256(name.encode()).hexdigest()[:16], len(numbers))


def _room(number: int, first: int) -> int:
    """The number of rows or columns for which there is room, `first` or a power of two."""
    return max(first, 1 << max(0, number - 1).bit_length())


def _grown(old: Array, fresh: Array) -> Array:
    """A larger table with the rows, of prompts, of the old one, and its columns, of outcomes."""
    if old.shape == fresh.shape:
        return old
    if old.shape[1:] == fresh.shape[1:]:
        return fresh.at[: len(old)].set(old)
    # The last column is of answers without a valid outcome.
    columns = np.r_[: old.shape[1] - 1, fresh.shape[1] - 1]
    return fresh.at[: len(old), columns].set(old)


@functools.partial(jax.jit, static_argnames="learning_rate")
def _moved(learning_rate: float, gradients: Any, parameters: Any, optimizer_state: Any) -> tuple[Any, Any]:
    updates, optimizer_state = sparse_adam(learning_rate).update(gradients, optimizer_state)
    return jax.tree.map(jnp.add, parameters, updates), optimizer_state
