"""Transformers that add in two modes: a prior whose short answers are mostly wrong, and what becomes of both modes."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.modes.mode_paths import settled
from ipsrl import objectives
from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.environments.addition_modes import AdditionModes, columns
from ipsrl.environments.demonstrations import ModeMistakes
from ipsrl.environments.text import STOP
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources.stored_groups import given_answers
from ipsrl.study.curves import Curve, Points
from ipsrl.training.loop import check_run
from ipsrl.training.measured import measured
from ipsrl.training.priors import Imitators
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

TABLES, DEMONSTRATIONS = 8, 8
"""Tables of demonstrations, and how many each has to a prompt."""
NAMES = ("thinking", "short", "think")
"""What is measured of each prompt."""
POINTS = 11
"""Of a curve, at most."""


@dataclasses.dataclass(frozen=True)
class ModeAdders:
    """Policies of `AdditionModes`, one for each seed of a run.

    A seed decides its prior, as in `Imitators`, and the answers that training and a measurement sample.

    Attributes:
      task: with free modes.
      right_short: of `ModeMistakes`.
      prior_steps: of `Imitators`.
      training: of reinforcement learning, on all prompts; without a learning rate.
      answers: that think, to each prompt in a measurement.
    """

    task: AdditionModes
    policy: Transformer
    right_short: float
    prior_steps: int
    training: TrainSettings
    answers: int

    @functools.cached_property
    def prior(self) -> Imitators:
        """Seed -> parameters before reinforcement learning."""
        mistakes = ModeMistakes(right_short=self.right_short, answers=DEMONSTRATIONS)
        return Imitators(self.task, self.policy, mistakes, self.prior_steps, TABLES)

    @functools.cached_property
    def _right_answers(self) -> tuple[Array, Array]:
        """Tokens `[P, 2, T]` and lengths `[P, 2]` of a right answer in each mode, the short one first."""
        task = self.task
        tokens, lengths = np.zeros((task.num_prompts, 2, task.max_tokens), np.int32), []
        for of_prompt, (one, other) in zip(tokens, task.summands, strict=True):
            for row, work in zip(of_prompt, (None, columns(one, other)), strict=True):
                answer = [*map(task.vocabulary.index, task.answer(work, one + other)), STOP]
                row[: len(answer)] = answer
                lengths.append(len(answer))
        return jnp.asarray(tokens), jnp.reshape(jnp.array(lengths), tokens.shape[:2])

    def of_prompts(self, parameters: Parameters, seed: int, step: int) -> dict[str, np.ndarray]:
        """`[P]`, of each prompt: the probabilities of `thinking` and of `choosing_short`, and the skills of both modes.

        The skill `short` is exact, because one short answer is right; `think` is the share of right ones among
        `answers` answers that are forced to think.
        """
        tokens, lengths = self._right_answers
        prompts = self.task.prompts(jnp.arange(self.task.num_prompts))
        given = given_answers(prompts, tokens, lengths)
        chosen, right = jax.device_get(_scored(self.policy, parameters, given))
        thinking = dataclasses.replace(self.task, forced="think")
        key = stream(seed, step, "evaluation")
        sampled = sample_groups(thinking, self.policy, parameters, prompts, key, self.answers)
        return {
            "thinking": chosen[:, 1],
            "choosing_short": chosen[:, 0],
            "short": right[:, 0],
            "think": self.task.modes(jax.device_get(sampled)).right.mean(axis=1),
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
        """What becomes of both modes.

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
        trainer = Trainer(task, self.policy, objectives.make(objective), self.training)
        check_run(task, self.policy, trainer.objective, self.training, own_device_mesh())
        places = np.unique(np.linspace(0, self.training.steps, POINTS).astype(int))

        def path(seed: int) -> list[dict[str, float]]:
            def measure(parameters: Parameters, step: int) -> dict[str, float]:
                return self.measures(parameters, seed, step)

            return measured(trainer, seed, self.prior(seed), measure, places, rate)

        def compute() -> Points:
            paths = list(map(path, seeds))
            names = paths[0][0]
            values = {name: np.array([[at[name] for at in run] for run in paths]) for name in names}
            return Points(places, values | course(values, places), seeds)

        return Curve(labels, compute)


def course(values: Mapping[str, np.ndarray], steps: np.ndarray) -> dict[str, np.ndarray]:
    """What `ModeAdders.curve` adds to values `[S, U]` at steps `[U]`."""
    place = settled(values["thinking"])[:, None]
    return {
        "until": steps[place],
        "short_then": np.take_along_axis(values["short"], place, axis=1),
        "short_gain": values["short"] - values["short"][:, :1],
        "think_gain": values["think"] - values["think"][:, :1],
    }


@functools.partial(jax.jit, static_argnames="policy")
def _scored(policy: Transformer, parameters: Parameters, answers: Any) -> tuple[Array, Array]:
    """`[P, G]`, the probabilities of the first token, and of the others given that."""
    log_probs = jnp.where(answers.token_mask, policy.score(parameters, answers, 1.0).log_probs, 0.0)
    return jnp.exp(log_probs[..., 0]), jnp.exp(log_probs[..., 1:].sum(axis=-1))
