"""ModeBench's problems for small transformers: a prior that likes small numbers, and the right answers that are left.

A hypothesis of both domains is a row of whole numbers: colors, or divisors. The prior is taught on other problems of
the same kind: most of its right answers have small numbers, as a model prefers what it has read most often.
"""

import dataclasses
import functools
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ipsrl import objectives
from ipsrl.environments.tasks.mode_bench import HELD_OUT, TRAINING
from ipsrl.environments.text import TextTask
from ipsrl.measures.diversity import different_pairs, effective_outcomes
from ipsrl.measures.pass_at_k import mean_pass_at_k
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampled_answers import independent_answers
from ipsrl.study.curves import Curve
from ipsrl.training.measured import measured
from ipsrl.training.settings import TrainSettings
from ipsrl.training.supervised.priors import imitated, teacher
from ipsrl.training.trainer import Trainer

PARTS = {"": slice(HELD_OUT), "held_out_": slice(HELD_OUT, None)}
"""Prefix of a value -> its prompts among `SeveralAnswers.asked`."""
TRIES = (1, 8, 32)
PROMPTS, GROUP, TABLES = 8, 16, 8
"""The prompts and the group size of a step of the prior's training, and the number of such groups for each prompt."""
RIGHT = 0.6
"""Share of right answers among those that the prior is taught."""


@dataclasses.dataclass(frozen=True)
class SeveralAnswers:
    """One domain at one level, its prior, and reinforcement learning from it.

    Attributes:
      task: the problems that are trained on.
      taught, prior_steps: number of problems that the prior is taught, behind those of both splits, and for how long.
      training: of reinforcement learning, with the steps between evaluations.
      answers: to each problem at an evaluation.
    """

    task: TextTask
    policy: Transformer
    taught: int
    prior_steps: int
    training: TrainSettings
    answers: int

    @functools.cached_property
    def asked(self) -> TextTask:
        """The last 128 problems that are trained on, and the 128 that are held out, in one environment."""
        return dataclasses.replace(self.task, skip=TRAINING - HELD_OUT, problems=2 * HELD_OUT)

    @functools.cached_property
    def prior(self) -> Parameters:
        """The prior, one for all seeds, from the disk cache if it was taught before."""
        others = dataclasses.replace(self.task, skip=TRAINING + HELD_OUT, problems=self.taught)
        rows = demonstrated(others)
        known_by = {
            "world": "several answers",
            "demonstrations": zlib.crc32(repr(rows).encode()),
            "steps": self.prior_steps,
        }

        def taught_by() -> Trainer:
            return teacher(others, self.policy, rows, self.prior_steps, PROMPTS, GROUP)

        return imitated(others, self.policy, taught_by, 0, known_by)

    def measured(self, parameters: Parameters, seed: int) -> dict[str, float]:
        """Means over problems, of those that are held out with the prefix `held_out_`.

        pass_k      probability that one of k answers is right, k = 1, 8, 32 as far as there are so many answers
        pcmd        share of pairs of right answers that differ, over problems with two or more; 0 if there are none
        defined     share of these problems
        effective   exp(entropy) of the right answers; 0 where none is right
        """
        found = independent_answers(
            self.asked, self.policy, parameters, stream(seed, 0, "evaluation"), self.answers
        )
        right = np.asarray(found.outcomes.right)
        outcomes = np.where(right, found.outcomes.outcome_id, -1)
        return {
            f"{prefix}{name}": value
            for prefix, part in PARTS.items()
            for name, value in measures(outcomes[part], right[part]).items()
        }

    def curve(self, objective: str, seeds: Sequence[int], domain: str) -> Curve:
        """The curve of the values of `measured` over training.

        Raises:
          ValueError: the objective is unknown or cannot be trained here.
        """
        trainer = Trainer(self.task, self.policy, objectives.make(objective), self.training)
        trainer.check()
        steps = self.training.steps
        places = sorted({*range(0, steps, self.training.evaluate_every), steps})

        def run(seed: int) -> list[dict[str, float]]:
            return measured(
                trainer, seed, self.prior, lambda then, _: self.measured(then, seed), places
            )

        labels = {"domain": domain, "objective": objective}
        return Curve.of_runs(labels, places, run, seeds)


def demonstrated(task: TextTask) -> list[dict[str, Any]]:
    """Rows for `StoredGroups`: to each prompt `TABLES` groups of answers, drawn as they are `liked`."""
    rng = np.random.default_rng(0)
    rows = []
    for prompt, weights in enumerate(liked(task)):
        for group in rng.choice(len(weights), (TABLES, GROUP), p=weights).tolist():
            rows.append(
                {
                    "prompt": prompt,
                    "answers": list(map(task.render, group)),
                    "rewards": [1.0] * GROUP,
                    "outcomes": group,
                }
            )
    return rows


def liked(task: TextTask) -> np.ndarray:
    """`[num_prompts, K]`, the probability of each hypothesis as a taught answer to each prompt.

    A right one is taught in proportion to 1 / the product of its numbers, with `RIGHT` in all; the rest is uniform.
    """
    products = np.array(
        [np.prod([float(number) for number in name.split()]) for name in task.hypotheses]
    )
    weights = task.admissible / products
    return RIGHT * weights / weights.sum(axis=1, keepdims=True) + (1 - RIGHT) / len(products)


def measures(outcomes: np.ndarray, right: np.ndarray) -> Mapping[str, float]:
    """See `SeveralAnswers.measured`; both are `[P, answers]`, an outcome is -1 where the answer is not right."""
    count = right.shape[1]
    passed = mean_pass_at_k(right.sum(axis=1), count, [k for k in TRIES if k <= count])
    pairs = np.asarray(different_pairs(outcomes))
    return {f"pass_{k}": value for k, value in passed.items()} | {
        "pcmd": float(np.nanmean(pairs)) if np.isfinite(pairs).any() else 0.0,
        "defined": float(np.isfinite(pairs).mean()),
        "effective": float(effective_outcomes(outcomes).mean()),
    }
