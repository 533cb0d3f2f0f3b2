"""Transformers that add in two modes: a prior whose short answers are mostly wrong, and both modes in training."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from experiments.modes.mode_paths import settled
from ipsrl.environments.tasks.addition_modes import columns
from ipsrl.environments.text import STOP
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.given_answers import listed_answers, scores
from ipsrl.rollouts.randomness import stream
from ipsrl.structures import Trajectories
from ipsrl.study.curves import Curve, Points
from ipsrl.training.measured import measured
from ipsrl.training.supervised.priors import Learners

NAMES = ("thinking", "short", "think")
"""The measures of each prompt."""
POINTS = 11
"""The most points of a curve."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModeAdders(Learners):
    """Policies of `AdditionModes`, one for each seed of a run, that imitate `ModeMistakes` and learn from rewards.

    The modes of `task` are free, and `training` has no learning rate of its own. A seed decides also the answers of a
    measurement.

    Attributes:
      answers: that think, to each prompt in a measurement.
    """

    answers: int

    @functools.cached_property
    def _right_answers(self) -> Trajectories:
        """One to each prompt in each mode, the short one first."""
        task, answers = self.task, []
        for one, other in task.summands:
            works = None, columns(one, other)
            texts = [task.answer(work, one + other) for work in works]
            answers.append([[*map(task.vocabulary.index, text), STOP] for text in texts])
        return listed_answers(self.prompts, answers, task.max_tokens)

    def of_prompts(self, parameters: Parameters, seed: int, step: int) -> dict[str, np.ndarray]:
        """`[P]`, of each prompt: the probabilities of `thinking` and of `choosing_short`, and the skills of both modes.

        The skill `short` is exact, because one short answer is right; `think` is the share of right ones among
        `answers` answers that are forced to think.
        """
        scored = scores(self.policy, parameters, self._right_answers).log_probs
        log_probs = jnp.where(self._right_answers.token_mask, scored, 0.0)
        of_parts = log_probs[..., 0], log_probs[..., 1:].sum(axis=-1)
        chosen, right = map(np.asarray, map(jnp.exp, of_parts))
        thinkers = dataclasses.replace(self, task=dataclasses.replace(self.task, forced="think"))
        sampled = thinkers.sampled(parameters, stream(seed, step, "evaluation"), self.answers)
        return {
            "thinking": chosen[:, 1],
            "choosing_short": chosen[:, 0],
            "short": right[:, 0],
            "think": self.task.modes(sampled).right.mean(axis=1),
        }

    def measures(self, parameters: Parameters, seed: int, step: int) -> dict[str, float]:
        """Means over prompts: `thinking`, `short` and `think`, and as `thinking_1` and so on by difficulty; `fits`, the
        share of thinking at the hardest less that at the easiest, `rarer`, the share of the rarer mode, and `reward`.
        """
        found = self.of_prompts(parameters, seed, step)
        right_short = found["choosing_short"] * found["short"]
        right_thinking = found["thinking"] * found["think"]
        values = {"reward": right_short + (1 - self.task.gamma) * right_thinking}
        values |= {name: found[name] for name in NAMES}
        levels = np.unique(self.task.difficulty).tolist()
        for level in levels:
            of_level = self.task.difficulty == level
            values |= {f"{name}_{level}": found[name][of_level] for name in NAMES}
        means = {name: float(value.mean()) for name, value in values.items()}
        choosing_short = float(found["choosing_short"].mean())
        return means | {
            "fits": means[f"thinking_{levels[-1]}"] - means[f"thinking_{levels[0]}"],
            "rarer": min(means["thinking"], choosing_short),
        }

    def curve(
        self,
        objective: str,
        forced: str,
        rate: float,
        seeds: Sequence[int],
        labels: Mapping[str, Any],
    ) -> Curve:
        """The curve of both modes over training.

        Besides `measures`, points have `until`, the first point with over 99 % of answers in one mode, or the number of
        all updates if there is none; `short_then`, the skill `short` there; and `short_gain` and `think_gain`, what the
        skills gained since the beginning.

        Args:
          forced: of `AdditionModes`, while training samples.

        Raises:
          ValueError: the objective is unknown or cannot be trained here, or groups with forced modes are not of 4 n
            answers.
        """
        task = dataclasses.replace(self.task, forced=forced)
        trainer = dataclasses.replace(self, task=task).trainer(objective)
        places = np.unique(np.linspace(0, self.training.steps, POINTS).astype(int))

        def run(seed: int) -> list[dict[str, float]]:
            def measure(parameters: Parameters, step: int) -> dict[str, float]:
                return self.measures(parameters, seed, step)

            return measured(trainer, seed, self(seed), measure, places, rate)

        def compute() -> Points:
            found = Points.of_runs(places, map(run, seeds), seeds)
            return dataclasses.replace(found, values=found.values | course(found.values, places))

        return Curve(labels, compute)


def course(values: Mapping[str, np.ndarray], steps: np.ndarray) -> dict[str, np.ndarray]:
    """The values that `ModeAdders.curve` adds to values `[S, U]` at steps `[U]`."""
    place = settled(values["thinking"])[:, None]
    return {
        "until": steps[place],
        "short_then": np.take_along_axis(values["short"], place, axis=1),
        "short_gain": values["short"] - values["short"][:, :1],
        "think_gain": values["think"] - values["think"][:, :1],
    }
