"""Addition with a scratchpad of any length, which can be forced to be longer than the policy would choose."""

import dataclasses
import functools
import itertools

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import between, one_of
from ipsrl.environments.tasks.addition import WORKED, Addition

State = tuple[Array, Array, Array]
MOST_WORK = 1000


@dataclasses.dataclass(frozen=True)
class LongWork(Addition):
    """Random forms begin with 0 to `longest_work` digits of work and ":": the digits of the number from the last to the
    first, again and again. With 7, that of 579 is "9 7 5 9 7 5 9 : 5 7 9".

    With `work`, every answer begins with that many digits, of the policy's choice, and a dictated ":": budget forcing
    (arXiv 2506.04210 appends "Wait"; our reading). As in `Addition`, work has no part in the outcome.

    Attributes:
      longest_work: of the random forms.
      work: number of digits that are forced, at most `longest_work`; 0 for none.
      the others: as in `Addition`; the scratchpad must be `optional`.
    """

    scratchpad: str = one_of("optional", default="optional")
    longest_work: int = between(1, MOST_WORK, 27)
    work: int = between(0, lambda task: task.longest_work, 0)

    @functools.cached_property
    def longest_answer(self) -> int:
        return max(len(form) for _, form in self.forms.values()) + self.longest_work + 1

    def spell(self, answer: str, rng: np.random.Generator | None) -> list[str]:
        number, form = self.forms[answer]
        length = 0 if rng is None else int(rng.integers(self.longest_work + 1))
        digits = itertools.islice(itertools.cycle(number[::-1]), length)
        return [*digits, *[WORKED] * (length > 0), *form]

    def reset(self, key: Array, prompt_index: Array, member: Array) -> State:
        return *super().reset(key, prompt_index, member), jnp.int32(0)

    def step(self, state: tuple[Array, ...], token: Array) -> State:
        return *super().step(state, token), state[2] + 1

    def legal(self, state: tuple[Array, ...]) -> Array | None:
        if not self.work:
            return None
        digits = jnp.isin(jnp.arange(self.vocabulary_size), jnp.array([self._token_of[str(d)] for d in range(10)]))
        return digits | (state[2] >= self.work)

    def dictated(self, state: tuple[Array, ...]) -> Array | None:
        return jnp.where(state[2] == self.work, self._token_of[WORKED], -1) if self.work else None
