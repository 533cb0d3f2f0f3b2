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

from ipsrl.environments.tasks.plan_and_execute import PLANS
from ipsrl.policies.policy import Parameters
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.rollouts.given_answers import given_answers, scores
from ipsrl.rollouts.randomness import stream
from ipsrl.structures import Trajectories
from ipsrl.study.curves import Curve
from ipsrl.study.numbers import Computed, Number
from ipsrl.training.measured import measured
from ipsrl.training.supervised.priors import Learners

DIGITS = 10
ANSWERS = 16
"""The number of answers to each prompt from which strategic tokens are mined."""
MOST_INSIDE = 1.25
"""Times that a strategic token is, on average, in the answers that have it: our reading of the paper's "few"."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Planners(Learners):
    """Policies of `PlanAndExecute`, one for each seed of a run, that imitate `PlanMistakes` and learn from rewards.

    Attributes:
      record_every: updates between records.
    """

    record_every: int

    @functools.cached_property
    def executed(self) -> Trajectories:
        """The six plans carried out on each prompt, `[P, 6]` answers."""
        tokens = jnp.asarray(self.task.executions)
        return given_answers(self.prompts, tokens, jnp.full(tokens.shape[:2], tokens.shape[2]))

    def measured(self, parameters: Parameters) -> dict[str, float]:
        """Measures a policy: means over prompts, entropies in nats.

        accuracy            exact expected reward
        right_plan          probability that the plan fits
        execution           probability that a fitting plan is carried out right
        plan_entropy        of the first token
        execution_entropy   of the tokens behind the plan, where nothing has slipped so far
        semantic_entropy    of the plans of all prompts together, -sum_g f_g log f_g
        """
        scored = scores(self.policy, parameters, self.executed)
        log_probs = np.asarray(scored.log_probs)
        entropy = np.asarray(scored.entropy)
        found = self.task.probabilities(log_probs)
        right_plan = found["right_plan"]
        execution = found["execution_of_right_plans"]
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

    def recall(self, parameters: Parameters, seed: int) -> float:
        """The share of the plan tokens in sampled answers that are `strategic`: as many different ones as plans."""
        key = stream(seed, 0, "evaluation")
        sampled = self.sampled(parameters, key, ANSWERS)
        outcomes = self.task.verify(sampled)
        mask = np.asarray(sampled.token_mask) & ~np.isin(sampled.tokens, self.task.stop_tokens)
        right = np.asarray(outcomes.right)
        share = len(PLANS) / (len(PLANS) + DIGITS)
        found = strategic(sampled.tokens[right], mask[right], share)
        planning = np.asarray(outcomes.planning_mask) & mask
        plans = sampled.tokens[planning]
        return float(np.isin(plans, found).sum() / max(1, plans.size))

    def curve(self, objective: str, seeds: Sequence[int], prior: str) -> Curve:
        """The curve of `measured` over training; the `recall` before and after training is repeated at every record.

        Raises:
          ValueError: the objective is unknown or cannot be trained here.
        """
        trainer = self.trainer(objective)
        places = range(0, self.training.steps + 1, self.record_every)

        def run(seed: int) -> list[dict[str, float]]:
            policies = measured(
                trainer, seed, self(seed), lambda then, _: jax.device_get(then), places
            )
            recall = {
                "mined_before": self.recall(policies[0], seed),
                "mined_after": self.recall(policies[-1], seed),
            }
            return [self.measured(then) | recall for then in policies]

        labels = {"prior": prior, "objective": objective}
        return Curve.of_runs(labels, places, run, seeds)


def strategic(tokens: np.ndarray, mask: np.ndarray, kept: float) -> np.ndarray:
    """The strategic grams of answers (HICRA, arXiv 2509.03646), which have one token here, as a plan has.

    The paper's measure of planning where the tokens that plan are not known. It embeds the n-grams of right answers,
    clusters them by meaning, and keeps the clusters that most answers have. Here equal tokens are a cluster. Of the
    tokens that are few times in an answer the share `kept` that most answers have is strategic, with all ties.

    Args:
      tokens, mask: `[N, T]`, answers and their tokens that count; without the stop token, which all answers have.
    """
    vocabulary = np.arange(tokens.max(initial=0) + 1)
    here = mask[..., None] & (tokens[..., None] == vocabulary)
    inside = here.sum(axis=1)
    answers = (inside > 0).sum(axis=0)
    times = inside.sum(axis=0)
    few = (answers > 0) & (times <= MOST_INSIDE * answers)
    # Rounded, so that 0.2 of 5 is not a little more than 1.
    number = int(np.ceil(round(kept * few.sum(), 9)))
    least = np.sort(answers[few])[-number] if number else 0
    return np.flatnonzero(few & (answers >= least))


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
        of_each = zip(_half_gains(records, gaining), values, strict=True)
        return [np.interp(half, steps, row) for half, row in of_each]

    return Computed(f"{value} at half of the gain in {gaining}", of_each_seed, labels)


def _half_gains(records: Records, value: str) -> list[float]:
    steps, values = records.curve(value)
    if (values[:, -1] <= values[:, 0]).any():
        raise NotRecorded("a value does not gain from the first record to the last")
    found = []
    for row in values:
        half = (row[0] + row[-1]) / 2
        there = int(np.argmax(row >= half))
        around = slice(there - 1, there + 1)
        update = np.interp(half, row[around], steps[around])
        found.append(float(update))
    return found
