"""Addition with longer thinking than the policy would choose."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from ipsrl.environments.addition import WORKED, Addition
from ipsrl.environments.text import MARKS
from ipsrl.fields import positive

State = tuple[Array, Array, Array]


@dataclasses.dataclass(frozen=True)
class ForcedWork(Addition):
    """Every answer begins with `work` digits of the policy's choice and ":", and only then with what it would write.

    Budget forcing by a lower limit (arXiv 2506.04210 appends "Wait"; the limit is our reading): the digits are
    scratchpad, and no part of the outcome. The state also counts tokens.

    Attributes:
      work: number of digits.
      the others: as in `Addition`; the scratchpad must be `optional`.
    """

    work: int = positive(6)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scratchpad != "optional":
            raise ValueError(f"scratchpad is {self.scratchpad}, it must be optional: forced work stands on it")

    @property
    def max_tokens(self) -> int:
        return super().max_tokens + self.work + 1

    def reset(self, key: Array, prompt_index: Array, member: Array) -> State:
        return *super().reset(key, prompt_index, member), jnp.int32(0)

    def step(self, state: tuple[Array, ...], token: Array) -> State:
        return *super().step(state, token), state[2] + 1

    def legal(self, state: tuple[Array, ...]) -> Array:
        digits = jnp.isin(jnp.arange(self.vocabulary_size), jnp.array([self._token_of[str(d)] for d in range(10)]))
        return digits | (state[2] >= self.work)

    def dictated(self, state: tuple[Array, ...]) -> Array:
        mark = len(MARKS) + self.symbols.index(WORKED)
        return jnp.where(state[2] == self.work, mark, -1)
