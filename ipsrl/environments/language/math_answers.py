"""Mathematical questions with numbers as answers, from TensorFlow Datasets, without TensorFlow.

The data set must exist in the random-access format array_record. Nothing is downloaded.
"""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from ipsrl.checking.fields import Checked, at_least, one_of
from ipsrl.checking.paths import expanded
from ipsrl.environments.environment import OutcomeSpace, check_number
from ipsrl.environments.listed_task import NO_OUTCOME, listed_history
from ipsrl.environments.questions import Answer, Questions
from ipsrl.environments.reading.answer_text import checksum
from ipsrl.environments.reading.numeric_answers import read_number
from ipsrl.environments.stored_texts import stored_split
from ipsrl.structures import Outcomes


@dataclasses.dataclass(frozen=True)
class MathAnswers(Checked, Questions):
    """Questions whose answer is one number, such as those of GSM8K (arXiv 2110.14168).

    Answers and references are read by `ipsrl.environments.reading.numeric_answers`, or by the package math-verify, and
    compared exactly, as fractions. A reference may be a whole solution that ends with "#### 42". The reward is 1 if
    both are equal, else 0. An outcome id is a hash of the number, -1 without one; there is no list of them.

    Attributes:
      data_dir: folder of data sets; the data set itself is in data_dir/builder/version.
      builder: name of the data set, with its configuration if it has any ("name/configuration").
      split: in the TFDS split syntax, such as "train", "test" or "train[:100]".
      question_key, answer_key: names of two text features.
      limit: maximum number of questions, the first ones of the split; None for all.
      parser: of answers and references, `ours` or `math_verify`; docs/answers.md compares them.
      without_number: `refuse` a data set with a reference that holds no number, or `skip` such questions, which a
        warning counts, as `limit` does.

    Raises:
      ValueError: `limit` is not positive, or math-verify is missing. Also, when the questions are first used: the data
        set, the split or a feature does not exist, a reference holds no number and is not to be skipped, or none does.
    """

    data_dir: str = "~/tensorflow_datasets"
    builder: str = "gsm8k"
    split: str = "train"
    question_key: str = "question"
    answer_key: str = "answer"
    limit: int | None = at_least(1, None)
    parser: str = one_of("ours", "math_verify", default="ours")
    without_number: str = one_of("refuse", "skip", default="refuse")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reader  # noqa: B018 (a missing package is noticed before anything is read)

    @functools.cached_property
    def rows(self) -> tuple[tuple[str, Fraction], ...]:
        """Question and number of every prompt."""
        read = [(question, reference, self.reader(reference)) for question, reference in self._texts()]
        rows = tuple((question, value) for question, _, value in read if value is not None)
        missing = [(number, reference) for number, (_, reference, value) in enumerate(read) if value is None]
        if missing and (self.without_number == "refuse" or not rows):
            number, reference = missing[0]
            raise ValueError(
                f"the answer to question {number} of {self.builder}/{self.split} holds no number: {reference[-60:]!r}"
                + ("; without_number=skip leaves such questions out" if rows else "; and no other one does")
            )
        if missing:
            warnings.warn(
                f"{len(missing)} of {len(read)} questions of {self.builder}/{self.split} are left out: their answers "
                "hold no number",
                stacklevel=2,
            )
        return rows

    def _texts(self) -> list[tuple[str, str]]:
        """Question and reference of every row of the split, up to the limit."""
        folder = expanded(self.data_dir, "data_dir")
        versions = sorted((folder / self.builder).glob("*/dataset_info.json"), key=lambda info: _version(info.parent))
        if not versions:
            raise ValueError(f"there is no data set {self.builder} in {folder}: {self._how_to_prepare(folder)}")
        source = stored_split(
            versions[-1].parent,
            (self.question_key, self.answer_key),
            self.split,
            "questions",
            f"remove it, and {self._how_to_prepare(folder)}",
            "set question_key and answer_key",
        )
        chosen = (source[number] for number in range(min(len(source), self.limit or len(source))))
        return [(row[self.question_key].decode(), row[self.answer_key].decode()) for row in chosen]

    def _how_to_prepare(self, folder: Path) -> str:
        name = self.builder.partition("/")[0]
        if name == "gsm8k":
            code = "from tensorflow_datasets.text import Gsm8k as Builder"
        else:
            code = f"from the_module_of_{name} import Builder"
        code += f"; Builder(data_dir='{folder}', file_format='array_record').download_and_prepare()"
        return f'prepare it by python -c "{code}"'

    @property
    def num_prompts(self) -> int:
        return len(self.rows)

    def prompt_text(self, prompt: int, history: Sequence[str] = ()) -> str:
        check_number("prompt", prompt, self.num_prompts)
        return f"""\
{self.rows[prompt][0].strip()}
{listed_history(history)}
Reason step by step, and end with a line that holds nothing but #### and the answer as a number, for instance:
#### 42"""

    @property
    def reader(self) -> Callable[[str], Answer | None]:
        if self.parser == "ours":
            return read_number
        from ipsrl.environments.reading.math_verify_answers import read_by_math_verify

        return read_by_math_verify

    def verify_answers(
        self, prompt_index: Sequence[int] | np.ndarray, answers: Sequence[Sequence[Answer | None]]
    ) -> Outcomes:
        references = [self.rows[int(prompt)][1] for prompt in prompt_index]
        right = [[answer == value for answer in group] for value, group in zip(references, answers, strict=True)]
        return Outcomes(
            rewards=np.array(right, np.float32),
            outcome_id=np.array([[outcome_of(answer) for answer in group] for group in answers], np.int32),
        )

    def outcome_space(self, prompt: int) -> OutcomeSpace:
        raise ValueError("any number can be the answer to a question of math_answers: its outcomes cannot be listed")


def outcome_of(answer: Fraction | None) -> int:
    """A stable outcome id, within int32, shared by equal numbers; -1 for None."""
    return NO_OUTCOME if answer is None else checksum(str(answer)) % 2**31


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.name.split(".") if part.isdecimal())
