"""A table of logits: a policy without generalisation, trained by exactly the theory's logit dynamics."""

import dataclasses
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ipsrl.checking.fields import Checked, positive
from ipsrl.distributed import memory
from ipsrl.distributed.placement import REPLICATED, PlacementRules
from ipsrl.environments.environment import Environment
from ipsrl.policies.policy import Actions, Cache, Parameters, score_logits
from ipsrl.structures import PolicyScores, Prompts, Trajectories, as_tuples


@dataclasses.dataclass(frozen=True)
class Tabular(Checked):
    """One row of logits for each observation. Parameters: `{"logits": [S, V]}`.

    Attributes:
      num_observations: S.
      vocabulary_size: V.
      initial_logits: S tuples of V numbers, or V numbers for every observation; None for zeros, a uniform policy.
    """

    optional_fields: ClassVar[frozenset[str]] = frozenset()
    placement_rules: ClassVar[PlacementRules] = REPLICATED

    num_observations: int = positive()
    vocabulary_size: int = positive()
    initial_logits: tuple[float, ...] | tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.initial_logits is None:
            return
        rows, columns = self.num_observations, self.vocabulary_size
        try:
            hash(self.initial_logits)
            logits = np.asarray(self.initial_logits, np.float32)
        except (TypeError, ValueError):
            logits = np.zeros(0)
        if logits.shape not in ((columns,), (rows, columns)) or not np.isfinite(logits).all():
            raise ValueError(
                f"initial_logits must be {columns} finite numbers, one for each action, or {rows} tuples of "
                f"{columns}, one for each observation; not {self.initial_logits!r}."
            )

    @classmethod
    def of(cls, environment: Environment, initial_logits: ArrayLike | None = None, **others: Any) -> Self:
        """The table that fits an environment; `initial_logits` may be an array here, `others` are further fields."""
        if initial_logits is not None:
            initial_logits = as_tuples(initial_logits)
        return cls(environment.num_observations, environment.vocabulary_size, initial_logits, **others)

    def init(self, key: Array) -> Parameters:
        """The initial logits; `key` is not used.

        Raises:
          ValueError: there is less memory than they take.
        """
        size = self.num_observations * self.vocabulary_size * np.dtype(np.float32).itemsize
        memory.require(size, "the logits of the policy", "choose a smaller environment")
        initial = 0.0 if self.initial_logits is None else self.initial_logits
        logits = jnp.asarray(initial, jnp.float32)
        return {"logits": jnp.broadcast_to(logits, (self.num_observations, self.vocabulary_size))}

    def start(self, parameters: Parameters, prompts: Prompts, group_size: int, max_tokens: int) -> Cache:
        """No state is carried: the observation holds everything."""
        return ()

    def logits(self, parameters: Parameters, observations: Array) -> Array:
        """`[..., V]` of observations `[...]`: all that a table with other parameters overrides, beside `init`."""
        return parameters["logits"][observations]

    def step(self, parameters: Parameters, cache: Cache, observations: Array, position: Array) -> tuple[Array, Cache]:
        return self.logits(parameters, observations), cache

    def score(self, parameters: Parameters, trajectories: Trajectories, temperature: float) -> PolicyScores:
        logits = self.logits(parameters, trajectories.observations)
        return score_logits(logits, Actions.of(trajectories), temperature)
