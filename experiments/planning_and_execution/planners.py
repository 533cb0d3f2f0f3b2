"""Priors of `PlanAndExecute` that fail by wrong plans and by slips, and how training mends the two, exactly.

No answer is sampled to measure: a policy's probabilities of the plans, and of carrying each one out, are read from its
scores of the six plans carried out on each prompt.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.planning_and_execution.strategic_grams import agreement, gram_mask, strategic_grams
from ipsrl import objectives
from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.environments.demonstrations import PlanMistakes
from ipsrl.environments.plan_and_execute import PLANS, PlanAndExecute
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources.stored_groups import given_answers
from ipsrl.structures import Trajectories
from ipsrl.study.curves import Curve, Points
from ipsrl.study.numbers import Computed, Number
from ipsrl.training.loop import check_run
from ipsrl.training.measured import measured
from ipsrl.training.priors import Imitators
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

DIGITS = 10
ANSWERS = 16
"""To each prompt, from which strategic grams are mined."""


@dataclasses.dataclass(frozen=True)
class Planners:
    """Policies that plan and execute, one for each seed of a run.

    A seed decides its prior, as in `Imitators`, and the answers that reinforcement learning samples.

    Attributes:
      mistakes: what the prior is taught.
      prior_steps: of `Imitators`.
      training: of reinforcement learning.
      record_every: updates between records.
    """

    task: PlanAndExecute
    policy: Transformer
    mistakes: PlanMistakes
    prior_steps: int
    training: TrainSettings
    record_every: int

    @functools.cached_property
    def prior(self) -> Imitators:
        """Seed -> parameters before reinforcement learning."""
        return Imitators(self.task, self.policy, self.mistakes, self.prior_steps)

    @functools.cached_property
    def executed(self) -> Trajectories:
        """The six plans carried out on each prompt, `[P, 6]` answers."""
        prompts = self.task.prompts(jnp.arange(self.task.num_prompts))
        tokens = jnp.asarray(self.task.executions)
        return given_answers(prompts, tokens, jnp.full(tokens.shape[:2], tokens.shape[2]))

    def measured(self, parameters: Parameters) -> dict[str, float]:
        """Of a policy, means over prompts; entropies in nats.

        accuracy            exact expected reward
        right_plan          probability that the plan fits
        execution           probability that a fitting plan is carried out right
        plan_entropy        of the first token
        execution_entropy   of the tokens behind the plan, where nothing has slipped so far
        semantic_entropy    of the plans of all prompts together, -sum_g f_g log f_g
        """
        log_probs, entropy = map(np.asarray, _scores(self.policy, parameters, self.executed))
        found = self.task.probabilities(log_probs)
        right_plan, execution = found["right_plan"], found["execution_of_right_plans"]
        plans = np.exp(log_probs[..., 0].astype(float))
        shares = plans / plans.sum(axis=-1, keepdims=True)
        of_execution = entropy[..., 1:].mean(axis=-1)
        of_all = plans.mean(axis=0) / plans.mean(axis=0).sum()
        return {
            "accuracy": float((right_plan * execution).mean()),
            "right_plan": float(right_plan.mean()),
            "execution": float((right_plan * execution).sum() / right_plan.sum()),
            "plan_entropy": float(entropy[:, 0, 0].mean()),
            "execution_entropy": float((shares * of_execution).sum(axis=-1).mean()),
            "semantic_entropy": float(-(of_all * np.log(of_all)).sum()),
        }

    def mined(self, parameters: Parameters, seed: int) -> dict[str, float]:
        """How well strategic grams of sampled right answers agree with the plans: single tokens, as many as plans."""
        prompts = self.task.prompts(jnp.arange(self.task.num_prompts))
        key = stream(seed, 0, "evaluation")
        sampled = jax.device_get(
            sample_groups(self.task, self.policy, parameters, prompts, key, ANSWERS)
        )
        outcomes = self.task.verify(sampled)
        right = np.asarray(outcomes.right)
        mask = np.asarray(sampled.token_mask) & ~np.isin(sampled.tokens, self.task.stop_tokens)
        share = len(PLANS) / (len(PLANS) + DIGITS)
        grams = strategic_grams(sampled.tokens[right], mask[right], 1, 1, share)
        planning = np.asarray(outcomes.planning_mask) & mask
        return agreement(gram_mask(sampled.tokens, mask, grams), planning)

    def curve(self, objective: str, seeds: Sequence[int], prior: str) -> Curve:
        """What is `measured` in training, and of what is `mined` before and after it the `recall`, beside all of it.

        Raises:
          ValueError: the objective is unknown or cannot be trained here.
        """
        made = objectives.make(objective)
        check_run(self.task, self.policy, made, self.training, own_device_mesh())
        trainer = Trainer(self.task, self.policy, made, self.training)
        places = range(0, self.training.steps + 1, self.record_every)

        def of_seed(seed: int) -> list[dict[str, float]]:
            policies = measured(
                trainer, seed, self.prior(seed), lambda then, _: jax.device_get(then), places
            )
            recall = {
                "mined_before": self.mined(policies[0], seed)["recall"],
                "mined_after": self.mined(policies[-1], seed)["recall"],
            }
            return [self.measured(then) | recall for then in policies]

        def compute() -> Points:
            rows = [of_seed(seed) for seed in seeds]
            values = {name: [[then[name] for then in row] for row in rows] for name in rows[0][0]}
            return Points(places, values, seeds)

        return Curve({"prior": prior, "objective": objective}, compute)


def half_gain(value: str, **labels: Any) -> Number:
    """The update at which a value has made half of its gain from first to last record.

    Between records the value is taken to be linear. Raises NotRecorded if it does not gain.
    """
    words = f"updates until half of the gain in {value}"
    return Computed(words, lambda records: _half_gains(records, value), labels)


def at_half(value: str, gaining: str, **labels: Any) -> Number:
    """A value where another one has made half of its gain."""

    def of_each_seed(records: Records) -> list[float]:
        steps, values = records.curve(value)
        halves = _half_gains(records, gaining)
        return [np.interp(half, steps, row) for half, row in zip(halves, values, strict=True)]

    return Computed(f"{value} at half of the gain in {gaining}", of_each_seed, labels)


def _half_gains(records: Records, value: str) -> list[float]:
    steps, values = records.curve(value)
    return [_half(steps, of_seed) for of_seed in values]


def _half(steps: np.ndarray, values: np.ndarray) -> float:
    if values[-1] <= values[0]:
        raise NotRecorded("a value does not gain from the first record to the last")
    half = (values[0] + values[-1]) / 2
    there = int(np.argmax(values >= half))
    around = slice(there - 1, there + 1)
    return float(np.interp(half, values[around], steps[around]))


@functools.partial(jax.jit, static_argnames="policy")
def _scores(
    policy: Transformer, parameters: Parameters, executed: Trajectories
) -> tuple[Array, Array]:
    scores = policy.score(parameters, executed, 1.0)
    return scores.log_probs, scores.entropy
