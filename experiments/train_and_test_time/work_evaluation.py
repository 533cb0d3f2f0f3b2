"""Evaluation of a policy that is made to think longer than it would."""

from collections.abc import Sequence

import numpy as np

from experiments.train_and_test_time.test_time import (
    answer_measures,
    by_budget,
    frequencies,
    majority_vote,
)
from ipsrl.environments.text import TextTask
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.records.evaluation import Evaluation
from ipsrl.rollouts.decoding import Decoding
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import verify


def evaluate_work(
    tasks: Sequence[TextTask],
    policy: Policy,
    decoding: Decoding,
    answers: int,
    budgets: Sequence[int],
    step: int,
    parameters: Parameters,
) -> Evaluation:
    """Measures of `answer_measures` of the first task, and for each budget those of `by_budget`, as in "vote at 4".

    Three ways to spend a budget of b times the tokens of an answer: one thought that is b times as long, a vote of b
    answers to the first task, and one of these answers.

    Args:
      tasks: for each budget the task with as much forced work.
      decoding: the distribution of each token.
      answers: number of answers to each prompt, from which all is estimated.
      step: not used: all policies are sampled with the same random numbers.
    """
    long = []
    for task in tasks:
        prompts = task.prompts(np.arange(task.num_prompts))
        sampled = sample_groups(
            task, policy, parameters, prompts, stream(0, 0, "evaluation"), answers, decoding
        )
        outcomes = verify(task, sampled)
        long.append(frequencies(np.asarray(outcomes.outcome_id), np.asarray(outcomes.right)))
    probs, right = long[0]
    votes = [(majority_vote(probs, budget), right) for budget in budgets]
    of_budgets = by_budget({"long": long, "vote": votes, "one": [(probs, right)] * len(budgets)})
    measured = answer_measures(probs, right)
    for way, values in of_budgets.items():
        measured |= {f"{way} at {b}": value for b, value in zip(budgets, values, strict=True)}
    return Evaluation({name: float(value) for name, value in measured.items()})
