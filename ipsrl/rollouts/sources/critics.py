"""Critics, whose words about an attempt the policy reads before it answers again."""

import abc
import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import ClassVar

import jax
import numpy as np
from jax import Array

from ipsrl.distributed import hosts
from ipsrl.environments import critiques
from ipsrl.environments.environment import require_tokens
from ipsrl.environments.questions import HypothesisEnvironment, writes
from ipsrl.environments.token_stream import of_each_answer
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.sources.source import Groups, Sampled
from ipsrl.structures import Trajectories

Words = list[list[list[int]]]
"""`[P][G]` lists of tokens, one for each attempt."""


def quoting(sampled: Sampled) -> HypothesisEnvironment:
    """The environment, whose prompts can quote an attempt.

    Raises:
      ValueError: it writes no such prompts.
    """
    if not writes(sampled.environment, "prompts_with_critique"):
        raise ValueError(
            "a second attempt is made to a prompt that quotes the first, which "
            f"{type(sampled.environment).__name__} does not write: take a text task"
        )
    return sampled.environment


class Critic(abc.ABC):
    """Says words about all attempts of a batch at once."""

    NAMED: ClassVar[dict[str, Callable[..., "Critic"]]] = {}
    """Names in texts such as `second_attempt(critic=first_mistake)`."""

    def check(self, sampled: Sampled) -> None:
        """Raises ValueError if it cannot say anything about attempts of these groups."""
        del sampled

    @abc.abstractmethod
    def __call__(
        self, sampled: Sampled, parameters: Parameters, attempts: Groups, key: Array
    ) -> tuple[Words, Array | float]:
        """The words, the same on every process, and the number of tokens that the policy sampled for them.

        Args:
          sampled: environment and policy.
          parameters: of the policy that answers again.
          attempts: `[P, G, T]`, with their outcomes; an attempt occurs several times if it is to be refined so often.
          key: the same key gives the same words.
        """


class ScriptedCritic(Critic):
    """Base of critics that speak about one attempt at a time; called by the first process alone.

    Words are cut to the length of an answer.
    """

    @abc.abstractmethod
    def words(self, environment: HypothesisEnvironment, prompt: int, attempt: Sequence[int]) -> Sequence[int]:
        """The words about the tokens of an attempt at a prompt, at least one token."""

    def check(self, sampled: Sampled) -> None:
        """Raises ValueError also if what it says about an empty answer to the first prompt is not words."""
        environment = quoting(sampled)
        self._words(environment, 0, [environment.stop_tokens[0]])

    def __call__(
        self, sampled: Sampled, parameters: Parameters, attempts: Groups, key: Array
    ) -> tuple[Words, Array | float]:
        words = functools.partial(self._words, quoting(sampled))
        say = functools.partial(of_each_answer, words, *as_lists(attempts[0]))
        return hosts.broadcast(hosts.first_does(say)), 0.0

    def _words(self, environment: HypothesisEnvironment, prompt: int, attempt: Sequence[int]) -> list[int]:
        words = self.words(environment, prompt, attempt)
        words = require_tokens("what the critic says", words, environment.vocabulary_size)
        if not words:
            raise ValueError(
                f"the critic {self} says nothing about the attempt {list(attempt)} at prompt {prompt}: it must say at "
                "least one token; without a critic only the attempt is quoted"
            )
        return words[: environment.max_tokens]


@dataclasses.dataclass(frozen=True)
class _OfKnownMistakes(ScriptedCritic):
    def check(self, sampled: Sampled) -> None:
        """Raises ValueError if nobody knows the mistakes of the task."""
        if critiques.criticism_of(sampled.environment) is None:
            task = getattr(sampled.environment, "task", sampled.environment)
            raise ValueError(
                f"{type(self).__name__} knows the mistakes of {' and '.join(critiques.names())} alone, not those of "
                f"{type(task).__name__}: write a ScriptedCritic for it, or take true_answer or own"
            )
        super().check(sampled)


@dataclasses.dataclass(frozen=True)
class FirstMistake(_OfKnownMistakes):
    """Says where the first mistake of an attempt is; `ipsrl.environments.critiques` defines what that is."""

    def words(self, environment: HypothesisEnvironment, prompt: int, attempt: Sequence[int]) -> Sequence[int]:
        return critiques.first_mistake(environment, prompt, attempt)


@dataclasses.dataclass(frozen=True)
class RightOrWrong(_OfKnownMistakes):
    """Says whether an attempt is right, in one token of a compact vocabulary, as the task has it and not a `Reward`."""

    def words(self, environment: HypothesisEnvironment, prompt: int, attempt: Sequence[int]) -> Sequence[int]:
        return critiques.right_or_wrong(environment, prompt, attempt)


@dataclasses.dataclass(frozen=True)
class TrueAnswer(ScriptedCritic):
    """Says a right answer, whatever the attempt: always the first right hypothesis of the prompt.

    A refinement can copy it without any reasoning. It is what the code of Critique-GRPO (arXiv 2506.03106) does by
    default, behind a word on whether the attempt is right.
    """

    def check(self, sampled: Sampled) -> None:
        """Raises ValueError if the right answers are not known."""
        for name in ("admissible", "render"):
            if not hasattr(sampled.environment, name):
                raise ValueError(
                    f"TrueAnswer needs the right answers, which {type(sampled.environment).__name__} does not list: "
                    "take a text task"
                )
        super().check(sampled)

    def words(self, environment: HypothesisEnvironment, prompt: int, attempt: Sequence[int]) -> Sequence[int]:
        return critiques.true_answer(environment, prompt)


@dataclasses.dataclass(frozen=True)
class Shuffled(Critic):
    """A placebo: another critic's words, each given to an attempt at another prompt of the batch.

    All words of the batch are said once, so they are as long and as frequent as the other critic's. By chance they may
    be true: were they always different, they would tell what the true ones are not. If more than half of the attempts
    are at one prompt, some words are about another attempt at the same one.

    Attributes:
      critic: whose words are shuffled.
    """

    critic: Critic

    def check(self, sampled: Sampled) -> None:
        """Raises ValueError also if a batch holds only one prompt, or if the words are shuffled already."""
        if not isinstance(self.critic, Critic) or isinstance(self.critic, Shuffled):
            raise ValueError(f"Shuffled needs a critic that is not shuffled, such as FirstMistake(), not {self.critic}")
        if (prompts := min(sampled.prompts_per_step, sampled.environment.num_prompts)) < 2:
            raise ValueError(
                f"Shuffled gives an attempt the words about another prompt, but a batch has {prompts}: take at least 2"
            )
        self.critic.check(sampled)

    def __call__(
        self, sampled: Sampled, parameters: Parameters, attempts: Groups, key: Array
    ) -> tuple[Words, Array | float]:
        of_words, of_order = jax.random.split(key)
        words, spent = self.critic(sampled, parameters, attempts, of_words)
        prompts, number = as_lists(attempts[0])[0], len(words[0])
        rng = np.random.default_rng(hosts.to_host(jax.random.key_data(of_order)))
        source = other_prompts(np.repeat(prompts, number), rng)
        said = [words[place // number][place % number] for place in source.tolist()]
        return [said[first : first + number] for first in range(0, len(said), number)], spent


@dataclasses.dataclass(frozen=True)
class Own(Critic):
    """The policy criticises its own attempts: it samples the words, after the prompt and the attempt.

    `TextTask.prompts_for_critique` and `LanguageTask.prompts_for_critique` are what it reads. An untrained policy says
    anything, or stops at once: then only the attempt is quoted.
    """

    def check(self, sampled: Sampled) -> None:
        """Raises ValueError if the environment writes no prompts that ask for a critique."""
        if not hasattr(sampled.environment, "prompts_for_critique"):
            raise ValueError(
                f"Own needs prompts that ask for a critique, which {type(sampled.environment).__name__} does not "
                "write: take a text task"
            )

    def __call__(
        self, sampled: Sampled, parameters: Parameters, attempts: Groups, key: Array
    ) -> tuple[Words, Array | float]:
        environment, (prompts, answers) = quoting(sampled), as_lists(attempts[0])
        number, each = len(answers[0]), list(itertools.chain.from_iterable(answers))
        # As wide as the prompts of second attempts, so that both are sampled by one program.
        asked = environment.prompts_for_critique(np.repeat(prompts, number), each, environment.history_width(2))
        said = sampled.answers(parameters, asked, key, 1)
        stops = environment.stop_tokens
        words = [[token for token in answer if token not in stops] for [answer] in as_lists(said)[1]]
        return [words[first : first + number] for first in range(0, len(words), number)], said.token_mask.sum()


Critic.NAMED.update(
    first_mistake=FirstMistake, right_or_wrong=RightOrWrong, true_answer=TrueAnswer, shuffled=Shuffled, own=Own
)


def as_lists(trajectories: Trajectories) -> tuple[list[int], Words]:
    """`[P]` the prompts of groups and `[P][G]` the tokens of their answers, on every process."""
    index, tokens, written = hosts.to_host((trajectories.prompts.index, trajectories.tokens, trajectories.written))
    answers = [
        [answer[mask].tolist() for answer, mask in zip(group, masks, strict=True)]
        for group, masks in zip(tokens, written, strict=True)
    ]
    return index.tolist(), answers


def other_prompts(prompts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random permutation of N places in which no place gets one with the same prompt.

    If more than half of the places have one prompt, some do, but none gets itself (N > 1).
    """
    # Prompts in random order, the places of each side by side and in random order.
    label = rng.permutation(prompts.max() + 1)[prompts]
    order = np.lexsort((rng.random(len(prompts)), label))
    most = min(int(np.bincount(label).max()), len(prompts) // 2)
    shifted = np.roll(order, rng.integers(most, len(prompts) - most + 1))
    source = np.empty_like(order)
    source[order] = shifted
    return source
