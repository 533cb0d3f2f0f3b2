"""A tokenizer's chat template: the text of a conversation, the marks around its messages, and the end of a turn."""

import dataclasses
import datetime
import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ipsrl.checking.foreign_code import said
from ipsrl.environments.reading.answer_text import is_tag

DATE = datetime.datetime(2024, 7, 26)
"""Today, for templates that ask: a run that is resumed tomorrow must see the same prompts. The default of Llama 3.1."""
WRITTEN_DATE = {f"%{code}": DATE.strftime(f"%{code}") for code in "aAbBcdDeFfgGhHIjmMprRStTuUVwWxXyYzZ"}
# Without zeros in front; and the sign itself last.
WRITTEN_DATE |= {f"%-{code}": WRITTEN_DATE[f"%{code}"].lstrip("0") or "0" for code in "dHIjmMSy"} | {"%%": "%"}
# In place of the function of transformers, which itself hands nothing but plain data to templates.
FIXED_TODAY = (
    "{% macro strftime_now(format) %}{{ format"
    + "".join(f"|replace({code!r}, {words!r})" for code, words in WRITTEN_DATE.items())
    + " }}{% endmacro +%}"
)
QUESTION = {"role": "user", "content": "a question"}
ANSWER = {"role": "assistant", "content": "words of the model"}


class TurnsWithoutStop(UserWarning):
    """A chat template ends the model's turn with a token that does not end an answer."""


@dataclasses.dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a tokenizer, on the date `DATE`.

    Attributes:
      tokenizer: a fast tokenizer of `transformers` that has one.
      system_prompt: the first message, "" for none.
      thinking: passed to the template as `enable_thinking`.
    """

    tokenizer: Any
    system_prompt: str = ""
    thinking: bool = False

    def text(self, messages: Sequence[Mapping[str, str]], goes_on: bool = True) -> str:
        """The conversation behind the system message; if it `goes_on`, up to the start of the model's turn.

        Raises:
          ValueError: the template refuses it.
        """
        system = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        try:
            return self.tokenizer.apply_chat_template(
                [*system, *messages],
                chat_template=FIXED_TODAY + self.tokenizer.get_chat_template(),
                add_generation_prompt=goes_on,
                tokenize=False,
                enable_thinking=self.thinking,
                date_string=DATE.strftime("%d %b %Y"),
            )
        # A template is a program.
        except Exception as error:
            folder = self.tokenizer.name_or_path
            raise ValueError(f"the chat template in {folder} refuses the prompt ({said(error)})") from None

    @functools.cached_property
    def turn_begins(self) -> str:
        """The text that the template puts after a question."""
        return self.text([QUESTION]).rpartition(QUESTION["content"])[2]

    @functools.cached_property
    def turn_ends(self) -> int | None:
        """The added token that the template writes first behind an answer, None if it writes none there."""
        _, found, behind = self._exchange.rpartition(ANSWER["content"])
        first = self._tokens(behind.lstrip())[:1] if found else []
        return next((token for token in first if token in self.tokenizer.added_tokens_decoder), None)

    def warn_of_turns(self, stop_tokens: Sequence[int], stop_strings: Sequence[str]) -> None:
        """Warns if a turn ends with a token that neither is a stop token nor contains a stop string."""
        end = self.turn_ends
        if end is None or end in stop_tokens:
            return
        word = self.tokenizer.convert_ids_to_tokens(end)
        if not any(string in word for string in stop_strings):
            warnings.warn(
                f"the chat template in {self.tokenizer.name_or_path} ends a turn with {word!r}, which does not end an "
                f"answer: add {end} to eos_token_id in its generation_config.json, or {word!r} to the stop strings",
                TurnsWithoutStop,
                stacklevel=2,
            )

    @property
    def marks(self) -> set[int]:
        """The special tokens that the template writes."""
        # A system prompt may name tags of its own.
        bare = dataclasses.replace(self, system_prompt="a system prompt" if self.system_prompt else "")
        written = bare._tokens(bare.text([QUESTION])) + bare._tokens(bare._exchange)
        return set(written) & special_tokens(self.tokenizer)

    @functools.cached_property
    def _exchange(self) -> str:
        """A question and its answer; empty if the template refuses a conversation that has an answer."""
        try:
            return self.text([QUESTION, ANSWER], goes_on=False)
        except ValueError:
            return ""

    def _tokens(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]


def special_tokens(tokenizer: Any) -> set[int]:
    return {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}


def unread_tokens(tokenizer: Any, template: ChatTemplate | None) -> frozenset[int]:
    """The tokens that are no words of an answer: padding, the beginning of texts and the others that every tokenizer
    has a name for, and the marks of its template. Tags around thoughts and answers are words, even as special tokens.
    """
    named = {getattr(tokenizer, f"{role}_id") for role in type(tokenizer).SPECIAL_TOKENS_ATTRIBUTES} - {None}
    marks = named | (set() if template is None else template.marks)
    return frozenset(token for token in marks if not is_tag(tokenizer.convert_ids_to_tokens(token)))
