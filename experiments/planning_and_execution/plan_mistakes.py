"""Plans carried out with mistakes of both kinds, to teach a prior that makes them."""

import dataclasses
from typing import ClassVar

import numpy as np

from ipsrl.checking.fields import between, probability
from ipsrl.environments.demonstrations import Demonstrations
from ipsrl.environments.tasks.plan_and_execute import PLANS, PlanAndExecute
from ipsrl.environments.text import TextTask


@dataclasses.dataclass(frozen=True)
class PlanMistakes(Demonstrations):
    """Answers to `PlanAndExecute` with wrong plans and with slips.

    A plan fits with probability `right_plans`. Among those that do, or do not, plan number i of `PLANS`, from 1, is
    taken with a weight of i^-favour: at random, or with the same favourites at every prompt. Each digit slips with
    probability 1 - right_execution^(1 / length), to a random other digit, independently of everything else: so an
    answer has no slip with probability `right_execution`, whatever its plan, and a policy can learn to slip as often.

    Attributes:
      right_plans, right_execution: probabilities. A random plan fits with `fitting` / 6.
      favour: 0 to 16.
      the others: as in `Demonstrations`.

    Raises:
      ValueError: a field is out of range.
    """

    right_plans: float = probability(0.3)
    right_execution: float = probability(0.6)
    favour: float = between(0, 16, 0.0)

    task_type: ClassVar[type[TextTask]] = PlanAndExecute

    def _tokens(self, task: PlanAndExecute, rng: np.random.Generator) -> list[list[list[int]]]:
        shape = (task.num_prompts, self.answers)
        right = rng.random(shape) < self.right_plans
        wanted = task.fits[:, None] == right[..., None]
        # The largest u^(1 / weight) of uniform u is taken with a probability in proportion to its weight.
        powers = (1.0 + np.arange(len(PLANS))) ** self.favour
        keys = rng.random(wanted.shape) ** powers
        plan = np.where(wanted, keys, -1).argmax(axis=-1)
        prompts = np.arange(task.num_prompts)[:, None]
        tokens = task.executions[prompts, plan]
        digits = tokens[..., 1:-1]
        zero = task.vocabulary.index("0")
        slip = 1 - self.right_execution ** (1 / task.length)
        slips = rng.random(digits.shape) < slip
        others = rng.integers(1, 10, digits.shape)
        shifts = np.where(slips, others, 0)
        tokens[..., 1:-1] = zero + (digits - zero + shifts) % 10
        return tokens.tolist()
