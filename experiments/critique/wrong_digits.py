"""Policies that are sure of a wrong digit in half of their sums, and can repair it once a critic names the place.

A critic's words narrow a search: of an answer with three digits, one of them wrong, there are 27 others with one other
digit, nine where the place is known, and one where the answer is.
"""

import dataclasses
import functools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.critique.repairs import CRITICS, Repairs, row_of
from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.environments import critiques
from ipsrl.environments.tasks.addition import Addition
from ipsrl.environments.text import STOP
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.given_answers import answer_log_probs, listed_answers
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sources.source import Groups, Sampled
from ipsrl.structures import Trajectories
from ipsrl.study.curves import Curve
from ipsrl.training.settings import make_batch_filters
from ipsrl.training.supervised.priors import imitated, teacher
from ipsrl.training.trainer import Trainer

COPIES = 100
"""Demonstrations of each first answer."""
KNOWN = 0.3
"""Share of right ones among those of odd prompts."""
PRIOR_RATE = 6e-3
TRIES = 32
"""Answers of a prior to a prompt; where none is right, the prompt is without initial success."""


def sums(problems: int) -> Addition:
    """The task with so many prompts.

    The remainders have no digit that a small policy could learn to compute from the summands in a few thousand steps.
    """
    return Addition(modulus=601, problems=problems, spellings=("plain",))


@dataclasses.dataclass(frozen=True)
class Repairers:
    """Policies that learn sums, one for each seed, and their priors.

    A prior is taught the `first_lessons` of the prompts that are asked later, and the `Repairs` of other prompts:
    second attempts behind the words of each critic, and critiques. So the right answers to even prompts are in none of
    them, and repairing is a skill. A seed decides initial parameters, the order of demonstrations, and all samples;
    prompts, wrong digits and demonstrations are the same for all.

    Attributes:
      whole: the task with all prompts.
      asked: number of its first prompts, which are asked; the others are those of repairs.
      prior_steps: of supervised training on 64 demonstrations each.
    """

    whole: Addition
    policy: Transformer
    asked: int
    prior_steps: int

    @functools.cached_property
    def task(self) -> Addition:
        """The task with the prompts that are asked."""
        return dataclasses.replace(self.whole, problems=self.asked)

    @functools.cached_property
    def demonstrations(self) -> list[dict[str, Any]]:
        """Rows for `StoredGroups`, of one answer each."""
        rows = []
        for number, critic in enumerate(CRITICS):
            # A place is harder to use than the other words.
            attempts = 2 if critic == "first_mistake" else 1
            repairs = Repairs(critic, slip=0.0, right=0.2, attempts=attempts, seed=number)
            rows += repairs.rows(self.whole)
        told = Repairs(slip=0.0, right=0.2, attempts=1, seed=len(CRITICS))
        rows += told.critique_rows(self.whole)
        first = [
            row_of(prompt, [], answer, self.task.parse(answer))
            for prompt, answer in first_lessons(self.task)
        ]
        return first + [row for row in rows if row["prompt"] >= self.asked]

    @functools.cached_property
    def teacher(self) -> Trainer:
        """Supervised training of a prior."""
        return teacher(
            self.whole, self.policy, self.demonstrations, self.prior_steps, 64, 1, PRIOR_RATE
        )

    def prior(self, seed: int) -> Parameters:
        """The prior of a seed, from the disk cache if it was taught before."""
        known_by = {
            "world": "wrong digits",
            "demonstrations": zlib.crc32(repr(self.demonstrations).encode()),
            "rate": PRIOR_RATE,
            "steps": self.prior_steps,
        }
        return imitated(self.whole, self.policy, lambda: self.teacher, seed, known_by)

    @functools.cached_property
    def right_answers(self) -> Trajectories:
        """The right answer to each prompt, in the form that the sampler returns."""
        answers = [[right_answer(self.task, prompt)] for prompt in range(self.asked)]
        prompts = self.task.prompts(jnp.arange(self.asked))
        return listed_answers(prompts, answers, self.task.max_tokens)

    def success(self, parameters: Parameters) -> np.ndarray:
        """`[P]` float64, the exact probability of the right answer to each prompt; a sum has but one."""
        found = jnp.exp(answer_log_probs(self.policy, parameters, self.right_answers))
        return np.asarray(found, np.float64)[:, 0]

    @property
    def sampled(self) -> Sampled:
        """The source of answers to all prompts."""
        return Sampled(self.task, self.policy, self.asked, TRIES)

    def first_answers(self, seed: int) -> Groups:
        """Answers of a prior to all prompts, `[P, 32, T]`."""
        prompts, key = self.task.prompts(jnp.arange(self.asked)), stream(seed, 0, "first answers")
        answers = self.sampled.answers(self.prior(seed), prompts, key, TRIES)
        return answers, self.sampled.verify(None, answers, key)[0]

    def repaired(self, critic: str, seed: int) -> dict[str, float]:
        """The success of second attempts that follow a critic's words, on prompts where the prior had no success.

        repaired: the share of right second attempts.
        of_8: the share of rows of eight second attempts with a right one.
        hard_prompts: the number of these prompts.
        """
        (wrapper,) = make_batch_filters(f"off_policy(refine=second_attempt(critic={critic}))")
        with jax.set_mesh(own_device_mesh()):
            first, key = self.first_answers(seed), stream(seed, 0, "second answers")
            second, _ = wrapper.refine(self.sampled, self.prior(seed), first, TRIES, key)
            outcomes, _ = self.sampled.verify(None, second, jax.random.key(0))
            rewards = np.asarray(outcomes.rewards)[without_success(first)]
        in_rows = rewards.reshape(len(rewards), -1, 8).max(axis=-1)
        return {
            "repaired": float(rewards.mean()),
            "of_8": float(in_rows.mean()),
            "hard_prompts": len(rewards),
        }

    def curve(self, critic: str, seeds: Sequence[int]) -> Curve:
        """The curve of `repaired`, at step 0, for each prior."""
        return Curve.of_runs(
            {"critic": critic}, [0], lambda seed: [self.repaired(critic, seed)], seeds
        )


def right_answer(task: Addition, prompt: int) -> list[int]:
    """The tokens of the right answer to a prompt."""
    return [*critiques.true_answer(task, prompt), STOP]


def first_lessons(task: Addition) -> Iterator[tuple[int, list[int]]]:
    """Prompts with the answers of somebody who is sure of a wrong digit in every other sum, and now and then
    right about the others.

    A prompt has one wrong answer, the right one with a random other digit in a random place. Prompts with an even
    number always get it, the others with probability 1 - `KNOWN`, and else the right answer.
    """
    rng = np.random.default_rng(0)
    digits = [task.vocabulary.index(digit) for digit in "0123456789"]
    for prompt in range(task.num_prompts):
        right = right_answer(task, prompt)
        place, wrong = rng.integers(len(right) - 1), list(right)
        wrong[place] = int(rng.choice([digit for digit in digits if digit != right[place]]))
        for known in (rng.random(COPIES) < KNOWN) & bool(prompt % 2):
            yield prompt, right if known else wrong


def without_success(groups: Groups) -> np.ndarray:
    """`[P]` bool, the prompts to which no answer is right."""
    return ~np.asarray(groups[1].right).any(axis=1)
