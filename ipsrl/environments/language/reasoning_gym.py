"""The data sets of reasoning-gym, over a hundred procedural tasks with verifiers, as questions for language models.

They come from the package `reasoning-gym` (arXiv 2505.24760, github.com/open-thought/reasoning-gym), which an extra
installs. Everything that its verifiers do with a model's words was read in one version, so no other is accepted.
"""

import dataclasses
import functools
import inspect
import sys
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ipsrl import extras
from ipsrl.checking.fields import Checked, between, share
from ipsrl.checking.specifications import Call, did_you_mean, shortened
from ipsrl.environments.environment import OutcomeSpace, check_number
from ipsrl.environments.listed_task import NO_OUTCOME, listed_history
from ipsrl.environments.questions import IN_THIS_PROCESS, Answer, Questions
from ipsrl.environments.reading.answer_text import checksum, tagged_answer
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.slow_tasks import report_if_slow
from ipsrl.structures import Outcomes

EVALUATES = "its verifier evaluates an answer as code"
VARIES = "it draws problems at random without its seed"
PAYS = "its verifier pays an answer in full that is wrong at most prompts, such as nan or 0"
REFUSED = {
    **dict.fromkeys(("binary_matrix", "spiral_matrix", "string_insertion"), EVALUATES),
    **dict.fromkeys(("intermediate_integration", "simple_integration", "polynomial_multiplication"), EVALUATES),
    "puzzle24": EVALUATES,
    "countdown": f"{EVALUATES}; the environment countdown(source=reasoning_gym) has its problems",
    "n_queens": f"{EVALUATES}; the environment n_queens has its problems",
    **dict.fromkeys(("coin_flip", "complex_arithmetic", "game_of_life_halting", "number_sorting"), PAYS),
    "composite": "its data sets cannot be named in it; train on one of them",
    "codeio": VARIES,
    "list_functions": VARIES,
}
"""Data set -> why it cannot be used."""
BELOW_FULL = float(np.nextafter(np.float32(1), np.float32(0)))
"""The largest reward below that of a right answer: data sets pay wrong ones up to 0.96."""
ORDER_OF_SETS = ("isomorphic_strings", "knight_swap", "ransom_note", "word_ladder")
"""Data sets whose problems depend on the order of Python's sets, which is another one each time Python starts."""


class _DataSets(Mapping[str, Callable[..., "DataSet"]]):
    """The name of each data set -> a function with the options of its configuration; imports the package if asked."""

    def __getitem__(self, name: str) -> Callable[..., "DataSet"]:
        return _maker(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_registered())

    def __len__(self) -> int:
        return len(_registered())


@dataclasses.dataclass(frozen=True, repr=False)
class DataSet:
    """A data set by its name, with options that differ from its own defaults."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    NAMED: ClassVar[Mapping[str, Callable[..., "DataSet"]]] = _DataSets()

    def __repr__(self) -> str:
        return repr(Call(self.name, (), self.options))


@dataclasses.dataclass(frozen=True)
class ReasoningGym(Checked, Questions):
    """The problems of one data set in text, with its own scores as rewards.

    An answer stands between `<answer>` and `</answer>`, as in the package's own prompts; what stands between the last
    such pair is scored as it is. Scores lie in [0, 1]; many data sets give some credit to answers that are not right,
    so that only those with the full score count as right (`Outcomes.right_above`). An answer whose scoring raises an
    error scores 0, one without tags too.

    An outcome id is a hash of the answer's text, without regard to case and to the width of blanks, and of its reward:
    what the reward tells apart is not the same. It is -1 if there is no answer; outcomes cannot be enumerated.
    `graph_coloring`, `n_queens` and `countdown(source=reasoning_gym)` are the tasks with many right answers as text
    tasks, whose outcomes are canonical and known.

    Some data sets are refused: those whose verifiers evaluate an answer as code or pay one that is wrong at most
    prompts, and those whose problems vary. Others are pickled and scored in the verifier's processes, in limited time.

    Attributes:
      dataset: its name, with options of its own or without: `gcd`, or `gcd(min_numbers=3, max_numbers=3)`.
      size: number of prompts. Problem i has the seed `seed` + i: held-out problems need a `seed` that is `size` away.
      seed: of the first problem.
      threshold: scores of at least this are right and have the reward 1, others 0; None for the scores as rewards.

    Raises:
      ValueError: the package is missing or has another version, there is no such data set or option, the data set is
        refused, or a field is out of its range.
    """

    right_above: ClassVar[float] = BELOW_FULL

    dataset: DataSet | str
    size: int = between(1, 1_000_000, 64)
    seed: int = between(0, 2**31 - 1, 0)
    threshold: float | None = share(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.dataset, str):
            object.__setattr__(self, "dataset", _maker(self.dataset)())
        _made(self.dataset, self.size, self.seed)

    @functools.cached_property
    def problems(self) -> tuple[dict[str, Any], ...]:
        """The package's own entries: question, answer and metadata."""
        source, problems = _made(self.dataset, self.size, self.seed), []
        with report_if_slow(lambda: f"{len(problems)} of {self.size} problems of {self.dataset} are made"):
            for number in range(self.size):
                try:
                    problems.append(source[number])
                # Its generators raise whatever their options lead to.
                except Exception as error:
                    raise ValueError(
                        f"reasoning-gym cannot make problem {number} of {self.dataset} ({error}): choose other options"
                    ) from None
        return tuple(problems)

    @property
    def num_prompts(self) -> int:
        return self.size

    def prompt_text(self, prompt: int, history: Sequence[str] = ()) -> str:
        check_number("prompt", prompt, self.num_prompts)
        return f"""\
{self.problems[prompt]["question"].strip()}
{listed_history(history)}
You may think first. Then write the final answer, and nothing else, between these tags:
<answer> </answer>"""

    @property
    def reader(self) -> Callable[[str], Answer | None]:
        return functools.partial(tagged_answer, str)

    def verify_answers(
        self, prompt_index: Sequence[int] | np.ndarray, answers: Sequence[Sequence[Answer | None]]
    ) -> Outcomes:
        return self.verify_read(prompt_index, answers, IN_THIS_PROCESS)

    def verify_read(
        self,
        prompt_index: Sequence[int] | np.ndarray,
        answers: Sequence[Sequence[Answer | None]],
        pool: VerifierPool,
    ) -> Outcomes:
        asked = [int(prompt) for prompt in prompt_index]
        verifier = _Verifier(self.dataset, {prompt: self.problems[prompt] for prompt in asked})
        pairs = [(prompt, text) for prompt, group in zip(asked, answers, strict=True) for text in group]
        scores = [score or 0.0 for score in pool.read(verifier, pairs)]
        rewards = np.array(scores, np.float32).reshape(len(asked), -1)
        if self.threshold is not None:
            rewards = (rewards >= np.float32(self.threshold)).astype(np.float32)
        groups = zip(answers, rewards, strict=True)
        outcome_id = [[outcome_of(*answer) for answer in zip(*group, strict=True)] for group in groups]
        return Outcomes(rewards, np.array(outcome_id, np.int32), right_above=self.right_above)

    def outcome_space(self, prompt: int) -> OutcomeSpace:
        raise ValueError(
            "any text can be the answer to a question of reasoning_gym: its outcomes cannot be listed, as those of "
            "graph_coloring, n_queens and countdown(source=reasoning_gym) can"
        )


def outcome_of(answer: str | None, reward: float) -> int:
    """A stable outcome id, within int32, of answers of one reward that differ in case and blanks alone; -1 for None."""
    if answer is None:
        return NO_OUTCOME
    return checksum(f"{float(reward)} {' '.join(answer.split()).casefold()}") % 2**31


@dataclasses.dataclass(frozen=True)
class _Verifier:
    """Scores pairs of a prompt and an answer, in any process; None if there is no answer."""

    dataset: DataSet
    problems: dict[int, dict[str, Any]]

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        # The import takes seconds. Here it is no part of the time of an answer.
        _made(self.dataset)

    def __call__(self, asked: tuple[int, str | None]) -> float | None:
        prompt, answer = asked
        if answer is None:
            return None
        return score_of(_made(self.dataset), answer, self.problems[prompt])


def score_of(data_set: Any, answer: str, problem: dict[str, Any]) -> float:
    """The package's own score of an answer to one of its problems; 0 where it raises an error or leaves [0, 1]."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = float(data_set.score_answer(answer, problem))
    # Several verifiers raise errors for answers that they do not expect.
    except Exception:
        return 0.0
    return score if 0 <= score <= 1 else 0.0


@functools.cache
def _registered() -> Mapping[str, Any]:
    """The package's own table of classes: name -> data set and configuration."""
    extras.require("reasoning_gym")
    # The first import of cellpylib warns of its own code.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from reasoning_gym.factory import DATASETS
    return DATASETS


def _maker(name: str) -> Callable[..., DataSet]:
    """A function that makes a data set of its options, as far as a specification can write them.

    Raises:
      ValueError: the package is missing, there is no such data set, or it is refused.
    """
    if name not in _registered():
        raise ValueError(
            f"unknown dataset {shortened(name)} of reasoning_gym; {did_you_mean(name, sorted(_registered()))}"
        )

    def make(**options: Any) -> DataSet:
        return DataSet(name, tuple(options.items()))

    hints = {key: _written(hint) for key, hint in _options(name).items()}
    make.__annotations__ = {key: hint for key, hint in hints.items() if hint is not None}
    kind = inspect.Parameter.KEYWORD_ONLY
    make.__signature__ = inspect.Signature([inspect.Parameter(key, kind, default=...) for key in make.__annotations__])
    return make


def _options(name: str) -> dict[str, Any]:
    """The type of each option of a data set but its size and seed."""
    _, config = _registered()[name]
    hints = typing.get_type_hints(config)
    return {field.name: hints[field.name] for field in dataclasses.fields(config) if field.name not in ("seed", "size")}


def _written(hint: Any) -> Any:
    """The type that a specification gives an option of that type, None if it cannot write one: a list is a tuple."""
    inner = typing.get_args(hint)
    if hint is tuple:
        return tuple[str, ...]
    if typing.get_origin(hint) is typing.Union:
        return typing.Union[tuple(filter(None, map(_written, inner)))]  # noqa: UP007 (of several types)
    if typing.get_origin(hint) in (list, tuple, Sequence):
        return tuple[inner[0], ...] if inner[0] in (str, int, float) else None
    return hint if typing.get_origin(hint) is typing.Literal or hint in (int, float, str, bool, type(None)) else None


@functools.lru_cache(maxsize=64)
def _made(dataset: DataSet, size: int = 1, seed: int = 0) -> Any:
    """The package's own data set.

    Raises:
      ValueError: it is refused, or an option does not exist or has a value that it does not take.
    """
    name = dataset.name
    _maker(name)
    if name in REFUSED:
        raise ValueError(f"reasoning_gym cannot use the data set {name}: {REFUSED[name]}")
    if name in ORDER_OF_SETS and sys.flags.hash_randomization:
        raise ValueError(
            f"reasoning_gym cannot use the data set {name} in this process: its problems depend on the order of sets; "
            "set the environment variable PYTHONHASHSEED=0"
        )
    kind, config = _registered()[name]
    lists = [key for key, hint in _options(name).items() if "list[" in str(hint).lower()]
    options = {key: [*value] if key in lists and value is not None else value for key, value in dataset.options}
    try:
        return kind(config(**options, size=size, seed=seed))
    except (AssertionError, TypeError, ValueError) as error:
        raise ValueError(f"reasoning-gym refuses {dataset}: {error}") from None
