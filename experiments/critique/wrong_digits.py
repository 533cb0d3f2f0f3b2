"""Sums of which a policy is sure of a wrong digit, which it can repair where it is told the place: what it then learns.

A critic's words narrow a search: of an answer with three digits, one of them wrong, there are 27 others with one other
digit, nine where the place is known, and one where the answer is.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.critique.repairs import CRITICS, Repairs, row_of
from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.environments import critiques
from ipsrl.environments.addition import Addition
from ipsrl.environments.demonstrations import Demonstrations
from ipsrl.environments.text import STOP, TextTask
from ipsrl.fields import probability
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sources.source import Groups, Sampled
from ipsrl.rollouts.sources.stored_groups import given_answers
from ipsrl.structures import Trajectories
from ipsrl.study.curves import Curve, Points
from ipsrl.training.priors import imitated, teacher
from ipsrl.training.settings import make_batch_filters
from ipsrl.training.trainer import Trainer

MODULUS = 601
"""Remainders have no digit that a small policy could learn to compute from the summands in a few thousand steps."""
COPIES = 100
"""Demonstrations of each first answer."""
TRIES = 32
"""Answers of a prior to a prompt; where none is right, the prompt is without initial success."""


@dataclasses.dataclass(frozen=True)
class WrongDigits(Demonstrations):
    """Answers to `Addition` by somebody who is sure of a wrong digit in every other sum, and half knows the others.

    A prompt has one wrong answer, the right one with a random other digit in a random place. Prompts with an even
    number always get it, the others with probability 1 - `known`, and else the right answer.

    Attributes:
      known: a probability.
      the others: as in `Demonstrations`.

    Raises:
      ValueError: a field is out of range.
    """

    known: float = probability(0.3)

    task_type: ClassVar[type[TextTask]] = Addition

    def _tokens(self, task: Addition, rng: np.random.Generator) -> list[list[list[int]]]:
        digits = [task.vocabulary.index(digit) for digit in "0123456789"]
        groups = []
        for prompt in range(task.num_prompts):
            right = _right(task, prompt)
            place = rng.integers(len(right) - 1)
            wrong = list(right)
            wrong[place] = int(rng.choice([digit for digit in digits if digit != right[place]]))
            knows = (rng.random(self.answers) < self.known) & bool(prompt % 2)
            groups.append([right if each else wrong for each in knows])
        return groups


@dataclasses.dataclass(frozen=True)
class Repairers:
    """Policies that learn sums, one for each seed, and their priors.

    A prior is taught the `WrongDigits` of the prompts that are asked later, and the `Repairs` of other prompts: second
    attempts behind the words of each critic, and critiques. So the right answers to even prompts are in none of them,
    and repairing is a skill. A seed decides initial parameters, the order of demonstrations, and all samples; prompts,
    wrong digits and demonstrations are the same for all.

    Attributes:
      asked, taught: numbers of prompts, with first answers and with repairs.
      hidden_size, num_layers: of the transformer.
      prior_steps: of supervised training on 64 demonstrations each.
    """

    asked: int
    taught: int
    hidden_size: int
    num_layers: int
    prior_steps: int

    @functools.cached_property
    def whole(self) -> Addition:
        """The task with all prompts."""
        return Addition(modulus=MODULUS, problems=self.asked + self.taught, spellings=("plain",))

    @functools.cached_property
    def task(self) -> Addition:
        """The task with the prompts that are asked, the first ones of the whole."""
        return dataclasses.replace(self.whole, problems=self.asked)

    @functools.cached_property
    def policy(self) -> Transformer:
        size = self.task.vocabulary_size
        return Transformer(size, hidden_size=self.hidden_size, num_layers=self.num_layers)

    @functools.cached_property
    def demonstrations(self) -> list[dict[str, Any]]:
        """Rows for `StoredGroups`, of one answer each."""
        rows = [
            row_of(row["prompt"], [], answer, outcome)
            for row in WrongDigits(answers=COPIES).rows(self.task)
            for answer, outcome in zip(row["answers"], row["outcomes"], strict=True)
        ]
        for number, critic in enumerate(CRITICS):
            # A place is harder to use than the other words.
            attempts = 2 if critic == "first_mistake" else 1
            repairs = Repairs(critic, slip=0.0, right=0.2, attempts=attempts, seed=number)
            rows += [row for row in repairs.rows(self.whole) if row["prompt"] >= self.asked]
        told = Repairs(slip=0.0, right=0.2, attempts=1, seed=len(CRITICS)).critique_rows(self.whole)
        rows += [row for row in told if row["prompt"] >= self.asked]
        # What is only imitated has no importance ratio.
        return [row | {"log_probs": [[0.0] * len(row["answers"][0])]} for row in rows]

    @functools.cached_property
    def teacher(self) -> Trainer:
        """Supervised training of a prior."""
        return teacher(self.whole, self.policy, self.demonstrations, self.prior_steps, 64, 1, 6e-3)

    def prior(self, seed: int) -> Parameters:
        """From the disk cache, if it was ever taught."""
        known_by = {
            "world": "wrong digits",
            "asked": self.asked,
            "copies": COPIES,
            "steps": self.prior_steps,
        }
        return imitated(self.whole, self.policy, lambda: self.teacher, seed, known_by)

    @functools.cached_property
    def right_answers(self) -> Trajectories:
        """That of each prompt, as the sampler would return it."""
        answers = [_right(self.task, prompt) for prompt in range(self.asked)]
        tokens = np.zeros((self.asked, 1, self.task.max_tokens), np.int32)
        for row, answer in zip(tokens, answers, strict=True):
            row[0, : len(answer)] = answer
        lengths = np.array([[len(answer)] for answer in answers], np.int32)
        prompts = self.task.prompts(jnp.arange(self.asked))
        return given_answers(prompts, jnp.asarray(tokens), jnp.asarray(lengths))

    def success(self, parameters: Parameters) -> np.ndarray:
        """`[P]` float64, the exact probability of the right answer to each prompt; a sum has but one."""
        found = _likelihoods(self.policy, parameters, self.right_answers)
        return np.asarray(found, np.float64)[:, 0]

    def first_answers(self, seed: int) -> tuple[Sampled, Groups]:
        """Answers of a prior to all prompts, `[P, 32, T]`, and the source that gave them."""
        sampled = Sampled(self.task, self.policy, self.asked, TRIES)
        prompts, key = self.task.prompts(jnp.arange(self.asked)), stream(seed, 0, "first answers")
        answers = sampled.answers(self.prior(seed), prompts, key, TRIES)
        return sampled, (answers, sampled.verify(None, answers, key)[0])

    def repaired(self, critic: str, seed: int) -> dict[str, float]:
        """Of a prior's answers to the prompts without initial success, the share of right second attempts behind a
        critic's words: `repaired` of one attempt, `of_8` of eight; `hard_prompts` is the number of these prompts.
        """
        filters = make_batch_filters(f"off_policy(refine=second_attempt(critic={critic}))")
        refine = filters["off_policy"].refine
        with jax.set_mesh(own_device_mesh()):
            sampled, first = self.first_answers(seed)
            key = stream(seed, 0, "second answers")
            second, _ = refine(sampled, self.prior(seed), first, TRIES, key)
            outcomes, _ = sampled.verify(None, second, jax.random.key(0))
            rewards = np.asarray(outcomes.rewards)[without_success(first)]
        in_rows = rewards.reshape(len(rewards), -1, 8).max(axis=-1)
        return {
            "repaired": float(rewards.mean()),
            "of_8": float(in_rows.mean()),
            "hard_prompts": len(rewards),
        }

    def curve(self, critic: str, seeds: Sequence[int]) -> Curve:
        """What `repaired` gives for each prior."""

        def compute() -> Points:
            found = [self.repaired(critic, seed) for seed in seeds]
            return Points([0], {name: [[of[name]] for of in found] for name in found[0]}, seeds)

        return Curve({"critic": critic}, compute)


def _right(task: Addition, prompt: int) -> list[int]:
    return [*critiques.true_answer(task, prompt), STOP]


def without_success(groups: Groups) -> np.ndarray:
    """`[P]` bool, the prompts to which no answer is right."""
    return ~np.asarray(groups[1].right).any(axis=1)


@functools.partial(jax.jit, static_argnums=0)
def _likelihoods(policy: Transformer, parameters: Parameters, given: Trajectories) -> Array:
    log_probs = policy.score(parameters, given, 1.0).log_probs
    return jnp.exp(jnp.where(given.token_mask, log_probs, 0.0).sum(axis=-1))
