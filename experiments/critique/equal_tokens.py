"""Arms that learn from first and second attempts until they have sampled equally many tokens, from the same priors."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.critique.wrong_digits import Repairers, without_success
from ipsrl import objectives
from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.rollouts.sources.source import Groups
from ipsrl.study.curves import Curve, Points
from ipsrl.training.loop import check_run
from ipsrl.training.settings import TrainSettings, make_batch_filters
from ipsrl.training.step import TrainState
from ipsrl.training.trainer import Metrics, Trainer


@dataclasses.dataclass(frozen=True)
class Learner:
    """How a policy learns, and from what.

    Attributes:
      objective: its specification.
      group_size: sampled answers to a prompt.
      critic: whose words second attempts read, as many as the group has answers; the best one takes the place of an
        answer in the group, see `OffPolicyAnswers`. Empty for no second attempts.
    """

    objective: str
    group_size: int
    critic: str = ""

    @property
    def filters(self) -> dict[str, Any]:
        """As fields of `TrainSettings`."""
        refine = f"second_attempt(critic={self.critic})"
        return make_batch_filters(
            f"off_policy(answers={self.group_size}, refine={refine})" if self.critic else ""
        )


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
        """Of an arm, on the prompts that are asked; its steps and its learning rate are not used."""
        how = TrainSettings(1, self.prompts_per_step, arm.group_size, **arm.filters)
        return Trainer(
            self.repairers.task, self.repairers.policy, objectives.make(arm.objective), how
        )

    def run(self, arm: Learner, learning_rate: float, seed: int) -> dict[str, np.ndarray]:
        """Values `[records + 1]` over a run: the mean probability of right answers to all prompts, `score`, to those
        without initial success, `hard`, and to the `others`, NaN if there are none; and the number of `updates`.
        """
        trainer, marks, repairers = self.trainer(arm), self.marks, self.repairers
        trajectories, tokens, updates, found = self.prompts_per_step * arm.group_size, 0.0, 0, []
        with jax.set_mesh(own_device_mesh()):
            hard = without_success(repairers.first_answers(seed)[1])
            prior = jax.tree.map(jnp.asarray, repairers.prior(seed))
            state = trainer.begin(jnp.int32(seed), jnp.float32(learning_rate), prior, None)
            while True:
                if (due := int((marks <= tokens).sum()) - len(found)) > 0:
                    success = repairers.success(state.parameters)
                    found += [
                        (*map(_mean, (success, success[hard], success[~hard])), updates)
                    ] * due
                if len(found) == len(marks):
                    return dict(
                        zip(("score", "hard", "others", "updates"), np.array(found).T, strict=True)
                    )
                state, groups, metrics = trainer.ask(state)
                state, of_update = _learned(trainer, state, groups)
                # Without batch filters nothing else is sampled, and the metric does not exist.
                spent = (
                    metrics["tokens_sampled"] if arm.filters else of_update["length"] * trajectories
                )
                tokens, updates = tokens + float(spent), updates + 1

    def curve(
        self,
        name: str,
        arm: Learner,
        seeds: Sequence[int],
        learning_rates: Sequence[float],
        tuning_seeds: Sequence[int],
    ) -> Curve:
        """`run` at the learning rate with the highest final score, in the mean over the tuning seeds; steps are tokens.

        Raises:
          ValueError: the arm cannot be trained here.
        """
        trainer = self.trainer(arm)
        check_run(
            trainer.environment,
            trainer.policy,
            trainer.objective,
            trainer.settings,
            own_device_mesh(),
        )

        def final(rate: float) -> float:
            return float(np.mean([self.run(arm, rate, seed)["score"][-1] for seed in tuning_seeds]))

        def compute() -> Points:
            best = max(learning_rates, key=final) if len(learning_rates) > 1 else learning_rates[0]
            runs = [self.run(arm, best, seed) for seed in seeds]
            values = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
            return Points(np.rint(self.marks).astype(int), values | {"learning_rate": best}, seeds)

        return Curve({"arm": name}, compute)


@functools.partial(jax.jit, static_argnames="trainer")
def _learned(trainer: Trainer, state: TrainState, groups: Groups) -> tuple[TrainState, Metrics]:
    """One program for all learning rates: outside jit they would be a part of it."""
    return trainer.learn(state, groups)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan
