"""Tasks that a tiny tokenizer asks, and what their prompts say."""

import dataclasses
from typing import ClassVar

from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.listed_task import ListedTask
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean


@dataclasses.dataclass(frozen=True)
class Remainders(ListedTask):
    """A task in text alone."""

    answers = (0, 1, 2)
    problem_table: ClassVar = {number: [number % 3] for number in range(4)}

    def prompt_words(self, problem, earlier):
        return f"What is the remainder of {problem} / 3?\n{earlier}".strip()

    def read_text(self, text):
        return int(text) if text.isdecimal() else None


BOOLEAN = HypospaceBoolean("basic", 1, observations=2)
VOCABULARY = 450  # of the model: more than the tokenizer has
HERE = VerifierPool(workers=0)


def texts_of(task):
    return [*(task.prompt_text(i) for i in range(task.num_prompts)), *map(task.answer_text, range(task.num_hypotheses))]


def asked(folder, task=BOOLEAN, **fields):
    fields = {"max_tokens": 60, "longest_prompt": 1500, "verifier": HERE} | fields
    return LanguageTask(task, folder, VOCABULARY, **fields)


def decoded(environment, prompts, row=0):
    """The text of a prompt, and the question in it."""
    masks = prompts.mask[row], prompts.question_mask[row]
    return [environment.tokenizer.decode(prompts.tokens[row][mask]) for mask in masks]
