"""A small transformer that spells sums, and is made to think longer than it would."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from experiments.train_and_test_time.budgets import START, TEST, TRAINING
from experiments.train_and_test_time.test_time import (
    answer_measures,
    by_budget,
    frequencies,
    majority_vote,
)
from ipsrl.environments.tasks.long_work import LongWork
from ipsrl.policies.policy import Parameters
from ipsrl.records.evaluation import Evaluation, shared_at_start
from ipsrl.rollouts.decoding import Decoding
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import verify
from ipsrl.study.curves import Curves, Output, Points, TrainingRun
from ipsrl.study.text_tasks import TextTaskSettings, training_grid

TRANSFORMER = "transformer"
WORK = {1: 3, 2: 11, 4: 27}
"""Budget, in times the tokens of an answer with the least work -> digits of forced work."""
BUDGETS = tuple(WORK)
FORCED = [LongWork(2, problems=32, longest_work=max(WORK.values()), work=n) for n in WORK.values()]
Train = Callable[[Output], Points]


def text_curves(settings: TextTaskSettings) -> Curves:
    """Curves of each run and of the prior: `answer_measures` along training, `by_budget` at the end.

    Three ways to spend a budget of b times the tokens of an answer: one thought that is b times as long, a vote of b
    answers with the least work, and one of these answers. All is estimated from sampled answers.
    """
    grid = training_grid("long_work(digits=2, problems=32, longest_work=27)", settings)
    decoding = Decoding(settings.temperature)

    def thoughts(task: LongWork, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """Answers as `frequencies`; all policies are sampled with the same random numbers."""
        prompts, key = task.prompts(np.arange(task.num_prompts)), stream(0, 0, "evaluation")
        sampled = sample_groups(
            task, grid.policy, parameters, prompts, key, settings.answers, decoding
        )
        outcomes = verify(task, sampled)
        return frequencies(np.asarray(outcomes.outcome_id), np.asarray(outcomes.right))

    def evaluate(step: int, parameters: Parameters) -> Evaluation:
        """Numbers with a budget have names as "vote at 4"."""
        long = [thoughts(task, parameters) for task in FORCED]
        probs, right = long[0]
        votes = [(majority_vote(probs, budget), right) for budget in BUDGETS]
        ways = by_budget({"long": long, "vote": votes, "one": long[:1] * len(BUDGETS)})
        measured = answer_measures(probs, right)
        for way, values in ways.items():
            measured |= {f"{way} at {b}": value for b, value in zip(BUDGETS, values, strict=True)}
        return Evaluation({name: float(value) for name, value in measured.items()})

    def along_training(train: Train, output: Output) -> Points:
        found = train(output)
        kept = {name: each for name, each in found.values.items() if " at " not in name}
        return Points(found.steps, kept)

    def with_budgets(train: Train, output: Output) -> Points:
        values: dict[str, list[float]] = {}
        for name, each in train(output).values.items():
            way, at, _ = name.partition(" at ")
            if at:
                values.setdefault(way, []).append(each[-1])
        return Points(BUDGETS, values)

    grid = dataclasses.replace(grid, evaluate=shared_at_start(evaluate))
    for run in grid.curves({"toy": TRANSFORMER}, START):
        for part, points in ((TRAINING, along_training), (TEST, with_budgets)):
            yield TrainingRun({**run.labels, "part": part}, functools.partial(points, run.train))
