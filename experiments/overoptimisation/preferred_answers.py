"""Countdown by a small transformer: preferences between its own answers, of which half of the problems have some."""

import dataclasses
import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.overoptimisation.preferred_arms import with_course
from ipsrl import objectives
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.given_answers import answer_log_probs, given_answers
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sources.source import Sampled
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.structures import Trajectories
from ipsrl.study.curves import Points
from ipsrl.training.ensemble import itself, train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.supervised.warm_start import WarmStart, prior_parameters
from ipsrl.training.trainer import Trainer

TRIES = 16
"""Answers of the prior to each problem, between which preferences are."""
BATCH = 16
RATE = 1e-3


@dataclasses.dataclass(frozen=True)
class PreferredAnswers:
    """A prior, and preferences of right over wrong answers that it gave; each seed has pairs of its own.

    Attributes:
      seeds: S.
      problems: the first half has preferences, the other half is held out.
      pairs: of each seed, drawn from all pairs of a right and a wrong answer to one problem.
      hidden_size, prior_steps: of the transformer, which has two layers, and of its warm start.
      asked: answers to each problem at an evaluation.
    """

    seeds: tuple[int, ...]
    problems: int
    pairs: int
    hidden_size: int
    prior_steps: int
    asked: int

    @functools.cached_property
    def task(self) -> Countdown:
        return Countdown(
            numbers=3,
            problems=self.problems,
            largest_number=12,
            largest_target=40,
            least_solutions=2,
        )

    @functools.cached_property
    def policy(self) -> Transformer:
        return Transformer(self.task.vocabulary_size, hidden_size=self.hidden_size, num_layers=2)

    @functools.cached_property
    def prior(self) -> Parameters:
        """The prior, one for all seeds, from the disk cache if it was taught before."""
        return prior_parameters(self.task, self.policy, WarmStart(steps=self.prior_steps))

    def answered(
        self, parameters: Parameters, number: int, key: Array
    ) -> tuple[Trajectories, np.ndarray]:
        """Answers to all problems, and their rewards `[P, number]`."""
        sampled = Sampled(self.task, self.policy, self.problems, number)
        answers = sampled.answers(
            parameters, self.task.prompts(np.arange(self.problems)), key, number
        )
        return answers, np.asarray(sampled.verify(None, answers, key)[0].rewards)

    @functools.cached_property
    def preferences(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Pairs for each seed: problems `[N]`, and tokens `[N, 2, T]` and lengths `[N, 2]` of right and wrong answers.

        Raises:
          ValueError: there are too few pairs.
        """
        found = []
        for seed in self.seeds:
            answers, rewards = self.answered(self.prior, TRIES, stream(seed, 0, "preferences"))
            right = rewards[: self.problems // 2] > 0
            problem, winner, loser = np.nonzero(right[:, :, None] & ~right[:, None, :])
            if len(problem) < self.pairs:
                raise ValueError(
                    f"the prior's answers make {len(problem)} pairs, not {self.pairs}: teach it for more steps, or ask "
                    "for fewer pairs"
                )
            kept = np.random.default_rng(seed).choice(len(problem), self.pairs, replace=False)
            places = problem[kept, None], np.stack([winner, loser], axis=-1)[kept]
            lengths = np.asarray(answers.token_mask)[places].sum(axis=-1)
            found.append((problem[kept], np.asarray(answers.tokens)[places], lengths))
        return found

    @functools.cached_property
    def source(self) -> StoredGroups:
        tables = map(np.concatenate, zip(*self.preferences, strict=True))
        given = self.task, self.policy, BATCH
        return StoredGroups.preferences(*given, *tables, parts=len(self.seeds))

    @functools.cached_property
    def _before(self) -> list[np.ndarray]:
        """Rewards of the prior's answers for each seed, by the random numbers of all evaluations."""
        return [self._evaluated(self.prior, place)[1] for place in range(len(self.seeds))]

    def _evaluated(self, parameters: Parameters, place: int) -> tuple[Trajectories, np.ndarray]:
        return self.answered(parameters, self.asked, stream(self.seeds[place], 0, "evaluation"))

    def measured(self, parameters: Parameters, place: int, beta: float) -> dict[str, Array]:
        """Measures a policy of the seed `seeds[place]`.

        value, held out: share of right answers to problems with preferences, and to the others, less the prior's.
        implicit: mean over the pairs of beta log(pi / pi_ref), right less wrong.
        chosen: mean of log(pi / pi_ref) of their right answers.
        divergence: KL(pi || pi_ref) of answers to all problems, an estimate.
        """
        answers, rewards = self._evaluated(parameters, place)
        gained = (rewards - self._before[place]).mean(axis=1)
        half = self.problems // 2

        def log_ratios(answers):
            now = answer_log_probs(self.policy, parameters, answers)
            return now - answer_log_probs(self.policy, self.prior, answers)

        problem, *pairs = self.preferences[place]
        ratios = np.asarray(log_ratios(given_answers(self.task.prompts(problem), *pairs)))
        return {
            "value": gained[:half].mean(),
            "held out": gained[half:].mean(),
            "implicit": beta * (ratios[:, 0] - ratios[:, 1]).mean(),
            "chosen": ratios[:, 0].mean(),
            "divergence": log_ratios(answers).mean(),
        }

    def trained(self, objective: str, beta: float, steps: int, every: int) -> Points:
        """An objective on the stored pairs, by Adam."""
        how = TrainSettings(steps, BATCH, 2, learning_rate=RATE)
        trainer = Trainer(self.task, self.policy, objectives.make(objective), how, self.source)
        parts = range(len(self.seeds))
        start = jax.tree.map(lambda leaf: jnp.stack([leaf] * len(parts)), self.prior)
        recorded = train_ensemble(
            trainer, jnp.arange(len(parts)), itself, every, initial_parameters=start
        )
        recorded = jax.device_get(recorded)
        steps = np.arange(0, steps + 1, every)

        def measured(part, place):
            then = jax.tree.map(operator.itemgetter((part, place)), recorded)
            return self.measured(then, part, beta)

        rows = [[measured(part, place) for place in range(len(steps))] for part in parts]
        found = Points.of_runs(steps, rows, self.seeds)
        values = {name: np.float64(each) for name, each in found.values.items()}
        return dataclasses.replace(found, values=with_course(values))
