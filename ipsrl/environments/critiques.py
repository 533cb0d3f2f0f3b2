"""Critiques of attempts at `Addition` or `Countdown`: whether one is right, or where its first mistake is.

Small policies read it in symbols of the task's own vocabulary, which has no words for critics, so that some of its
symbols serve as such; language models read a sentence, which speaks of the answer alone and not of their other words.

    Addition    +           right
                % : 2       wrong: the second digit of the scratchpad
                % 3         wrong: the third digit of the answer's number, counted from the last one
                %           wrong: the answer has no outcome
    Countdown   =           right
                - 7         wrong: 7 is not given
                - 7 7       wrong: 7 is used more often than it is given
                - + 7       wrong: 7 is not used
                - = 37      wrong: the result is 37; "- =" if it is no number of the vocabulary, or does not exist
                -           wrong: no expression can be read

An attempt that the task takes for right is right, whatever its scratchpad. Of others the first mistake is named:

- Addition: the scratchpad, where there is one, is read first, as the digits of the right number from the last to the
  first; then the number of the answer, also from its last digit, whatever its spelling. A digit that is missing or
  superfluous is wrong in its place. Without a readable answer a scratchpad's mistake is still named.
- Countdown: symbols are read from left to right, up to the first that cannot stand in its place; the first number that
  is not given, or used too often, is the mistake. Otherwise it is that the expression cannot be read, then the first
  number that is not used, if all must be, then the result.
"""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ipsrl.environments.environment import Environment, check_number, require_tokens
from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.listed_task import ListedTask
from ipsrl.environments.questions import HypothesisEnvironment
from ipsrl.environments.reading import arithmetic, expressions
from ipsrl.environments.tasks.addition import NO_THINK, THINK, WORDS, WORKED, Addition
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.text import STOP, TextTask


@dataclasses.dataclass(frozen=True)
class Criticism:
    """The way in which a kind of task is criticised.

    Attributes:
      right, wrong: the symbols that say so.
      in_symbols: (task, prompt, symbols of a wrong attempt, whether it ended itself) -> symbols behind `wrong`.
      in_text: (task, prompt, what the task's `reader` makes of a wrong attempt) -> a sentence.
      slips: kinds of symbols; one may be written in the place of another one of its kind, by mistake.
    """

    right: str
    wrong: str
    in_symbols: Callable[[Any, int, Sequence[str], bool], str]
    in_text: Callable[[Any, int, Any], str]
    slips: Callable[[Any], Sequence[Sequence[str]]]


def criticism_of(environment: Environment) -> Criticism | None:
    """The criticism of an environment's task, in its own symbols or in those of a language model; None if unknown."""
    task = environment.task if isinstance(environment, LanguageTask) else environment
    # Not of subclasses: AdditionModes has other outcomes and symbols than Addition, and LongWork other work.
    return KNOWN.get(type(task))


def first_mistake(environment: HypothesisEnvironment, prompt: int, attempt: Sequence[int]) -> list[int]:
    """The tokens that say where the first mistake of an attempt is, as above."""
    return _said(environment, prompt, attempt, where=True)


def right_or_wrong(environment: HypothesisEnvironment, prompt: int, attempt: Sequence[int]) -> list[int]:
    """The token, or for a language model the sentence, that says whether an attempt is right."""
    return _said(environment, prompt, attempt, where=False)


def true_answer(environment: HypothesisEnvironment, prompt: int) -> list[int]:
    """The tokens of the first right hypothesis of a prompt, in its canonical form, without a stop token.

    Raises:
      ValueError: the prompt does not exist, or has no right hypothesis.
    """
    check_number("prompt", prompt, environment.num_prompts)
    right = np.flatnonzero(environment.admissible[prompt])
    if not len(right):
        raise ValueError(f"prompt {prompt} has no right answer that could be said")
    if isinstance(environment, LanguageTask):
        task = environment.task
        assert isinstance(task, ListedTask), "others list no hypotheses"
        return environment.tokenizer(task.answer_text(int(right[0])), add_special_tokens=False)["input_ids"]
    return [token for token in environment.render(int(right[0])) if token != STOP]


def _said(environment: HypothesisEnvironment, prompt: int, attempt: Sequence[int], where: bool) -> list[int]:
    known = criticism_of(environment)
    if known is None or not isinstance(environment, TextTask | LanguageTask):
        raise ValueError(f"nobody knows the mistakes of {environment}: critics know {', '.join(names())}")
    check_number("prompt", prompt, environment.num_prompts)
    attempt = require_tokens("the attempt", attempt, environment.vocabulary_size)
    if isinstance(environment, LanguageTask):
        task, [text] = environment.task, environment.answer_texts([attempt])
        assert isinstance(task, TextTask), "critics know no others"
        # Texts of a model may take a reader long, so they are read where time is limited.
        [answer] = environment.verifier.read(task.reader, [environment.thought(prompt) + text])
        if answer is not None and is_right(task, prompt, task.outcome(answer)):
            sentence = "The answer is right."
        else:
            sentence = f"The answer is wrong. {known.in_text(task, prompt, answer) if where else ''}".strip()
        return environment.tokenizer(sentence, add_special_tokens=False)["input_ids"]
    if is_right(environment, prompt, environment.parse(attempt)):
        said = known.right
    else:
        ended = STOP in attempt
        symbols = [environment.vocabulary[token] for token in attempt[: attempt.index(STOP) if ended else None]]
        said = f"{known.wrong} {known.in_symbols(environment, prompt, symbols, ended) if where else ''}"
    return [environment.vocabulary.index(symbol) for symbol in said.split()]


def names() -> tuple[str, ...]:
    """The tasks that critics know."""
    return tuple(kind.__name__ for kind in KNOWN)


def is_right(task: TextTask, prompt: int, outcome: int) -> bool:
    """Whether an outcome is a right hypothesis of a prompt."""
    return 0 <= outcome < task.num_hypotheses and bool(task.admissible[prompt, outcome])


def _in_sum(task: Addition, prompt: int, symbols: Sequence[str], ended: bool) -> str:
    if task.scratchpad != "none" and WORKED in symbols:
        work = symbols[: len(symbols) - 1 - symbols[::-1].index(WORKED)]
        if task.scratchpad == "announced" and work and work[0] in (THINK, NO_THINK):
            work = work[1:]
        if place := _first_difference(work, _right_digits(task, prompt)):
            return f"{WORKED} {place}"
    answer = task.read_symbols(symbols) if ended else None
    return "" if answer is None else str(_wrong_digit(task, prompt, task.outcome(answer)) or "")


def _in_sum_text(task: Addition, prompt: int, answer: str | None) -> str:
    place = 0 if answer is None else _wrong_digit(task, prompt, task.outcome(answer))
    return f"Digit {place} of its number, counted from the last one, is the first mistake." if place else UNREADABLE


def _wrong_digit(task: Addition, prompt: int, outcome: int) -> int:
    """The place of the first wrong digit from the last one, from 1; 0 if an answer has no outcome."""
    if outcome < 0:
        return 0
    return _first_difference(str(task.values[outcome // len(task.spellings)])[::-1], _right_digits(task, prompt))


def _right_digits(task: Addition, prompt: int) -> str:
    """The digits of the right number, the last one first."""
    return str(task.values[int(task.admissible[prompt].argmax()) // len(task.spellings)])[::-1]


def _first_difference(written: Sequence[str], right: Sequence[str]) -> int:
    """The place, from 1, of the first symbol that differs; 0 if none does."""
    pairs = itertools.zip_longest(written, right)
    return next((place for place, (one, other) in enumerate(pairs, start=1) if one != other), 0)


def _in_expression(task: Countdown, prompt: int, symbols: Sequence[str], ended: bool) -> str:
    numbers, missing = [], 1
    for symbol in symbols:
        is_operator = symbol in expressions.OPERATORS
        if not missing or not (is_operator or symbol.isdecimal()):
            ended = False
            break
        missing += 1 if is_operator else -1
        numbers += [] if is_operator else [int(symbol)]
    tree = expressions.read_prefix(symbols) if ended else None
    kind, said = _wrong_in(task, prompt, numbers, tree)
    in_symbols, _ = MISTAKES[kind]
    return in_symbols.format(said if said in task.symbols else "")


def _in_expression_text(task: Countdown, prompt: int, tree: expressions.Tree | None) -> str:
    kind, said = _wrong_in(task, prompt, [] if tree is None else expressions.numbers_of(tree), tree)
    _, in_text = MISTAKES[kind]
    return in_text.format(said)


def _wrong_in(task: Countdown, prompt: int, numbers: Sequence[int], tree: expressions.Tree | None) -> tuple[str, str]:
    """A kind of mistake, and the number that it is about."""
    left = collections.Counter(given := task.asked[prompt].numbers)
    for number in numbers:
        if not left[number]:
            return "too often" if number in given else "not given", str(number)
        left[number] -= 1
    if tree is None:
        return "unreadable", ""
    if task.use_all and (unused := min(left.elements(), default=None)) is not None:
        return "not used", str(unused)
    result = arithmetic.value(tree)
    return ("no result", "") if result is None else ("result", str(result))


UNREADABLE = "It cannot be read."
MISTAKES = {
    "not given": ("{0}", "{0} is not one of the given numbers."),
    "too often": ("{0} {0}", "{0} is used more often than it is given."),
    "not used": ("+ {0}", "{0} is not used."),
    "result": ("= {0}", "Its value is {0}."),
    "no result": ("=", "It divides by zero."),
    "unreadable": ("", UNREADABLE),
}
"""Kind of mistake in an expression -> how it is said in symbols, and in text."""


def _kinds_of_symbols(task: Countdown) -> tuple[tuple[str, ...], ...]:
    return expressions.OPERATORS, tuple(map(str, range(1, task.largest_number + 1)))


KNOWN: dict[type[TextTask], Criticism] = {
    Addition: Criticism("+", "%", _in_sum, _in_sum_text, lambda task: (tuple("0123456789"), WORDS)),
    Countdown: Criticism("=", "-", _in_expression, _in_expression_text, _kinds_of_symbols),
}
