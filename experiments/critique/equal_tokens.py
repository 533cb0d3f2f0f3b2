"""Arms that learn from first and second attempts until they have sampled equally many tokens, from the same priors."""

import dataclasses
import math
from collections.abc import Sequence
from functools import partial

import jax
import numpy as np

from experiments.critique.wrong_digits import Repairers, without_success
from ipsrl import objectives
from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.policies.policy import Parameters
from ipsrl.structures import Scalars
from ipsrl.study.curves import Curve
from ipsrl.training.measured import measured
from ipsrl.training.settings import TrainSettings, make_batch_filters
from ipsrl.training.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class Learner:
    """How a policy learns, and from what.

    Attributes:
      words: what it is.
      objective: its specification.
      group_size: sampled answers to a prompt.
      critic: whose words second attempts read, as many as the group has answers; the best one takes the place of an
        answer in the group, see `OffPolicyAnswers`. Empty for no second attempts.
    """

    words: str
    objective: str
    group_size: int
    critic: str = ""


@dataclasses.dataclass(frozen=True)
class EqualTokens:
    """Reinforcement learning that ends when a budget is spent.

    Attributes:
      repairers: whose prompts are asked, and whose priors start.
      prompts_per_step: of an update.
      budget: tokens that a run samples, those of second attempts and of the policy's own critiques included. It ends
        after the first update with which they are so many.
      records: parts of the budget; a run is measured at the start and after the update that completes a part.
    """

    repairers: Repairers
    prompts_per_step: int
    budget: int
    records: int

    @property
    def marks(self) -> np.ndarray:
        """`[records + 1]`, tokens at which a run is measured."""
        return self.budget * np.arange(self.records + 1) / self.records

    def trainer(self, arm: Learner) -> Trainer:
        """The trainer of an arm, on the prompts that are asked; its own steps and learning rate are not used."""
        refine = f"second_attempt(critic={arm.critic})"
        filters = f"off_policy(answers={arm.group_size}, refine={refine})" if arm.critic else ""
        how = TrainSettings(
            1, self.prompts_per_step, arm.group_size, wrappers=make_batch_filters(filters)
        )
        return Trainer(
            self.repairers.task, self.repairers.policy, objectives.make(arm.objective), how
        )

    def run(self, arm: Learner, learning_rate: float, seed: int) -> list[dict[str, float]]:
        """Trains an arm and measures it at each of the `marks`.

        updates: the number of updates so far.
        score, hard, others: the mean probability of right answers to all prompts, to those without initial success, and
          to the others; NaN if there are none.
        """
        with jax.set_mesh(own_device_mesh()):
            hard = without_success(self.repairers.first_answers(seed))

        def measure(parameters: Parameters, updates: int) -> dict[str, float]:
            success = self.repairers.success(parameters)
            return {
                "score": _mean(success),
                "hard": _mean(success[hard]),
                "others": _mean(success[~hard]),
                "updates": float(updates),
            }

        def spent(metrics: Scalars) -> float:
            # Without batch filters nothing else is sampled, and the metric does not exist.
            if arm.critic:
                return metrics["tokens_sampled"]
            return metrics["length"] * self.prompts_per_step * arm.group_size

        prior = self.repairers.prior(seed)
        return measured(self.trainer(arm), seed, prior, measure, self.marks, learning_rate, spent)

    def curve(self, name: str, arm: Learner, learning_rate: float, seeds: Sequence[int]) -> Curve:
        """`run` of each seed at a learning rate; steps are tokens.

        Raises:
          ValueError: the arm cannot be trained here.
        """
        self.trainer(arm).check()
        steps = np.rint(self.marks).astype(int)
        labels = {"arm": name, "learning_rate": learning_rate}
        return Curve.of_runs(labels, steps, partial(self.run, arm, learning_rate), seeds)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan
