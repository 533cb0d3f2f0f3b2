"""Which arms an ablation compares, and what they are called."""

import dataclasses
import functools
import itertools

IN_TURN = "in turn"


@dataclasses.dataclass(frozen=True)
class Ablation:
    """Two methods that differ in a few steps, and all arms between them.

    Attributes:
      base, whole: names of the methods with none and with all of the steps.
      steps: names, in the order in which steps are added in turn.
    """

    base: str
    whole: str
    steps: tuple[str, ...]

    def arm(self, *taken: str) -> str:
        """The name of the arm with these steps, which are given in their order."""
        missing = [step for step in self.steps if step not in taken]
        return (
            "_without_".join((self.whole, *missing))
            if len(missing) < 2
            else "_plus_".join((self.base, *taken))
        )

    @functools.cached_property
    def arms(self) -> dict[str, tuple[str, ...]]:
        """Name -> steps."""
        subsets = (
            itertools.combinations(self.steps, number) for number in range(len(self.steps) + 1)
        )
        return {self.arm(*taken): taken for taken in itertools.chain.from_iterable(subsets)}

    @property
    def in_turn(self) -> list[str]:
        """The arms from one method to the other, a step at a time."""
        return [self.arm(*self.steps[:number]) for number in range(len(self.steps) + 1)]

    @property
    def alone(self) -> str:
        """The place of a step that is the only one."""
        return f"added to {self.base}"

    @property
    def left_out(self) -> str:
        """The place of a step that alone is missing."""
        return f"left out of {self.whole}"

    def pairs(self, step: str) -> dict[str, tuple[str, str]]:
        """Where a step is taken -> the arms with and without it: alone, in its turn, and as the last one missing."""
        turn, others = self.steps.index(step), [other for other in self.steps if other != step]
        return {
            self.alone: (self.arm(step), self.base),
            IN_TURN: (self.in_turn[turn + 1], self.in_turn[turn]),
            self.left_out: (self.whole, self.arm(*others)),
        }
