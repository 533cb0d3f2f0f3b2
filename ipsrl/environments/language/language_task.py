"""Text tasks for language models: prompts through a tokenizer's chat template, answers in the model's own tokens."""

import bisect
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import Checked, positive
from ipsrl.checking.paths import expanded
from ipsrl.environments.environment import OutcomeSpace, dictates
from ipsrl.environments.language.chat_template import ChatTemplate, unread_tokens
from ipsrl.environments.language.tokenizer_folder import Token, prompt_tokens, read_stop_tokens, read_tokenizer
from ipsrl.environments.listed_task import ListedTask
from ipsrl.environments.questions import Questions, Quotation
from ipsrl.environments.reading.answer_text import CLOSES_THOUGHT, OPENS_THOUGHT, ends_in_thought, is_tag
from ipsrl.environments.reading.stop_strings import StopStrings
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.environments.text import TextTask
from ipsrl.environments.token_stream import TokenStream, of_each_answer, written_answers
from ipsrl.structures import Outcomes, Prompts, Trajectories

# Any token of the model may be behind the masks of prompts and answers.
PADDING = 0
ATTEMPT = "Your earlier answer:"


@dataclasses.dataclass(frozen=True)
class LanguageTask(TokenStream, Checked):
    """An `Environment` that asks a language model the questions of a task, and verifies its answers by the task.

    A prompt is one user message, after an optional system message, in the tokenizer's chat template up to the start of
    the model's turn, and the words with which that turn begins, if there are any. Without a template it is the plain
    text and a line break; but if there are such words, they stand alone, as a base model completes sentences. A prompt
    that shows earlier answers has a question before them all the same.

    The stop tokens are those of the tokenizer and of the folder's generation_config.json, of which nothing else is
    read: log-probabilities are those of the distribution that is sampled from. Where stop strings are complete, in the
    answer alone, it ends as well: its tokens up to that one are actions of the policy. Unknown tokens are no text.

    Answers are verified as text up to a stop string, also if they are truncated at `max_tokens`. Stop tokens and
    `unread_tokens` are no part of it, all other special tokens are. Where a prompt ends within a thought, its answers
    begin there. There is no planning mask: objectives that need one are refused.

    Around a `ListedTask` this is a `HypothesisEnvironment` as well.

    Attributes:
      task: the questions and their verifier.
      tokenizer_dir: folder of a tokenizer in the format of `transformers`; nothing is downloaded.
      vocabulary_size: V of the model; it may be larger than the tokenizer's.
      max_tokens: T, maximum number of tokens of an answer, the stop token included.
      longest_prompt: maximum number of tokens of a prompt, with as much of its history as fits.
      system_prompt: the system message; "" for none of ours, in whose place some templates write their own.
      thinking: passed to the chat template as `enable_thinking`, which only some templates use (Qwen3).
      beginning: words with which the model's turn begins, for all prompts; "" for those of the task.
      stop_strings: strings that end an answer, besides those of the task.
      verifier: the processes that read answers.

    Raises:
      ValueError: the task dictates tokens, the folder holds no tokenizer with these abilities, it has tokens outside
        the model's vocabulary or no stop token, a prompt is too long, a size is not positive, or as `StopStrings.of`.
    """

    task: Questions
    tokenizer_dir: str
    vocabulary_size: int = positive()
    max_tokens: int = positive(512)
    longest_prompt: int = positive(1024)
    system_prompt: str = ""
    thinking: bool = False
    beginning: str = ""
    stop_strings: tuple[str, ...] = ()
    verifier: VerifierPool = dataclasses.field(default_factory=VerifierPool)

    optional_fields: ClassVar[frozenset[str]] = frozenset({"question_mask"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.task, TextTask) and dictates(self.task):
            raise ValueError(
                f"{self.task} dictates tokens of its own vocabulary, which a language model does not have: take a task "
                "that forces neither a mode nor work"
            )
        added = self.tokenizer.get_added_vocab()
        ordinary = (token for word, token in self.tokenizer.get_vocab().items() if word not in added)
        # Added tokens may be outside the vocabulary: Gemma 3's text models share a tokenizer that has an image token.
        largest = max(*ordinary, *self.stop_tokens, int(self.prompt_table.tokens.max()))
        if largest >= self.vocabulary_size:
            raise ValueError(
                f"the tokenizer in {self.tokenizer_dir} has a token {largest}, but the model has only "
                f"{self.vocabulary_size}: take the tokenizer of the same model"
            )
        _ = self._stops
        if self._template is not None:
            self._template.warn_of_turns(self.stop_tokens, (*self.task.stop_strings, *self.stop_strings))

    @functools.cached_property
    def tokenizer(self) -> Any:
        """The fast tokenizer of `transformers`."""
        return read_tokenizer(expanded(self.tokenizer_dir, "tokenizer_dir"))

    @functools.cached_property
    def stop_tokens(self) -> tuple[int, ...]:
        return read_stop_tokens(self.tokenizer, expanded(self.tokenizer_dir, "tokenizer_dir"))

    @functools.cached_property
    def _stops(self) -> StopStrings | None:
        strings = (*self.task.stop_strings, *self.stop_strings)
        return StopStrings.of(self.tokenizer, strings, self.vocabulary_size, self._unread) if strings else None

    @functools.cached_property
    def _unread_stops(self) -> tuple[int, ...]:
        words = self.tokenizer.convert_ids_to_tokens(self.stop_tokens)
        return tuple(token for token, word in zip(self.stop_tokens, words, strict=True) if not is_tag(word or ""))

    @functools.cached_property
    def _template(self) -> ChatTemplate | None:
        has_one = self.tokenizer.chat_template is not None
        return ChatTemplate(self.tokenizer, self.system_prompt, self.thinking) if has_one else None

    @functools.cached_property
    def _unread(self) -> frozenset[int]:
        return unread_tokens(self.tokenizer, self._template)

    def reset(self, key: Array, prompt_index: Array, member: Array) -> tuple[Array, ...]:
        state = super().reset(key, prompt_index, member)
        return state if self._stops is None else (*state, jnp.int32(0))

    def step(self, state: tuple[Array, ...], token: Array) -> tuple[Array, ...]:
        last, ended = super().step(state[:2], token)
        if self._stops is None:
            return last, ended
        table = self._stops.table
        matched = jnp.asarray(table)[state[2], last].astype(jnp.int32)
        return last, ended | (matched == len(table) - 1), matched

    @property
    def num_prompts(self) -> int:
        return self.task.num_prompts

    @functools.cached_property
    def prompt_table(self) -> Prompts:
        return self._padded(np.arange(self.num_prompts), [self._question(i) for i in range(self.num_prompts)], None)

    def prompts_with_history(
        self, index: Sequence[int] | np.ndarray, histories: Sequence[Sequence[Sequence[int]]], width: int | None = None
    ) -> Prompts:
        """Prompts as in `HypothesisEnvironment`.

        Earlier answers that are hypotheses are shown in their canonical form, others as the model wrote them. If not
        all fit, the latest that fit are shown, because the length of a model's text is not known beforehand.

        Raises:
          ValueError: a prompt without its history has more tokens than `width` or `longest_prompt`, a prompt ends with
            another token than without its history, or the number of histories differs from the number of prompts.
        """
        if len(histories) != len(index):
            raise ValueError(f"{len(index)} prompts need as many histories, got {len(histories)}")
        return self._with_latest(index, of_each_answer(self._shown, index, histories), self._question, width)

    def prompts_with_critique(
        self, index: Sequence[int] | np.ndarray, quotations: Sequence[Quotation], width: int | None = None
    ) -> Prompts:
        """The prompts `index` `[P]`, each with an attempt as the model wrote it and a critic's words, if any.

        Where the prompt would be too long, the attempt is left out, or if need be both.
        """
        texts = [(self.answer_texts([attempt])[0], self._decoded([words])[0]) for attempt, words in quotations]
        shown = [
            [f"{ATTEMPT}\n{attempt}"] + ([f"What a critic says about it:\n{words}"] if words else [])
            for attempt, words in texts
        ]
        return self._with_quotations(index, shown, "Answer the question again.", width)

    def prompts_for_critique(
        self, index: Sequence[int] | np.ndarray, attempts: Sequence[Sequence[int]], width: int | None = None
    ) -> Prompts:
        """The prompts `index` `[P]`, each with an attempt as the model wrote it, and the request for a critique.

        Where the prompt would be too long, it is the question alone.
        """
        shown = [[f"{ATTEMPT}\n{text}"] for text in self.answer_texts(attempts)]
        return self._with_quotations(index, shown, "Do not answer again. Say what is wrong with it.", width)

    def _with_quotations(
        self, index: Sequence[int] | np.ndarray, shown: Sequence[Sequence[str]], request: str, width: int | None
    ) -> Prompts:
        def question(prompt: int, quoted: Sequence[str]) -> str:
            if not quoted:
                return self._question(prompt)
            return "\n\n".join([self.task.prompt_text(prompt).strip(), *quoted, request])

        return self._with_latest(index, shown, question, width)

    def history_width(self, answers: int) -> int:
        """`longest_prompt`, for any number of earlier answers."""
        return self.longest_prompt

    @property
    def right_above(self) -> float:
        return self.task.right_above

    def verify(self, trajectories: Trajectories) -> Outcomes:
        index = np.asarray(trajectories.prompts.index)
        texts = of_each_answer(lambda prompt, text: self.thought(prompt) + text, index, self._texts(trajectories))
        return self.task.verify_texts(index, texts, self.verifier)

    def _texts(self, trajectories: Trajectories) -> Iterator[list[str]]:
        """The texts of the answers that are read, group by group."""
        return map(self.answer_texts, written_answers(trajectories))

    def thought(self, prompt: int) -> str:
        """`<think>` if a prompt ends within a thought, so that the text of its answers begins there; else nothing."""
        begun = "" if self._template is None else self._template.turn_begins
        return OPENS_THOUGHT if ends_in_thought(begun + self._beginning(prompt)) else ""

    @functools.cached_property
    def _begins_in_thought(self) -> bool:
        """Whether any answer does."""
        return any(map(self.thought, range(self.num_prompts)))

    def outcome_space(self, prompt: int) -> OutcomeSpace:
        return self.task.outcome_space(prompt)

    @property
    def hypotheses(self) -> tuple[str, ...]:
        return self._known.hypotheses

    @property
    def admissible(self) -> np.ndarray:
        return self._known.admissible

    def render(self, hypothesis: int, rng: np.random.Generator | None = None) -> list[int]:
        """Answer tokens of a hypothesis with the stop token; canonical without `rng`, else a random surface form.

        Raises:
          ValueError: there is no such hypothesis, or it has more than `max_tokens` tokens.
        """
        text = self._known.answer_text(hypothesis, rng)
        if self._begins_in_thought:
            text = f"{CLOSES_THOUGHT}\n\n{text}"
        elif self._goes_on:
            text = f" {text}"
        stop = self.stop_tokens[0] if self.tokenizer.eos_token_id is None else self.tokenizer.eos_token_id
        tokens = [*self.tokenizer(text, add_special_tokens=False)["input_ids"], stop]
        if len(tokens) > self.max_tokens:
            raise ValueError(f"the answer {text!r} has {len(tokens)} tokens, more than max_tokens, {self.max_tokens}")
        return tokens

    @property
    def _known(self) -> ListedTask:
        if not isinstance(self.task, ListedTask):
            raise ValueError(f"the outcomes of {self.task} cannot be listed: hypotheses require a listed task")
        return self.task

    def question_text(self, prompt: int) -> str:
        """The question, without the chat template around it, and below it the words with which an answer begins."""
        question, beginning = self._question(prompt), self._beginning(prompt)
        return question if beginning in ("", question) else f"{question}\n{beginning}"

    def answer_texts(self, answers: Iterable[Sequence[int] | np.ndarray]) -> list[str]:
        """The text of answers without stop tokens and marks, up to a stop string; a tag that ends one is read too."""
        if self._stops is None:
            return self._decoded(answers)
        return [self._stops.text_before(row) for row in self._without_stops(answers)]

    def _without_stops(self, rows: Iterable[Sequence[int] | np.ndarray]) -> list[list[int]]:
        rows = [np.asarray(row, np.int64) for row in rows]
        return [row[~np.isin(row, self._unread_stops)].tolist() for row in rows]

    def _decoded(self, rows: Iterable[Sequence[int] | np.ndarray]) -> list[str]:
        kept = [[token for token in row if token not in self._unread] for row in self._without_stops(rows)]
        # The tokenizer would decode an empty list as one empty answer.
        return self.tokenizer.batch_decode(kept, clean_up_tokenization_spaces=False) if kept else []

    def _shown(self, prompt: int, answer: Sequence[int]) -> str:
        [text] = self.answer_texts([answer])
        outcome = self._known.parse_text(self.thought(prompt) + text, prompt)
        return self._known.answer_text(outcome) if 0 <= outcome < self._known.num_hypotheses else text

    def _with_latest(
        self,
        index: Sequence[int] | np.ndarray,
        shown: Sequence[Sequence[str]],
        question: Callable[[int, Sequence[str]], str],
        width: int | None,
    ) -> Prompts:
        """The prompts `index`, each a question with the latest of the texts `shown` that fit.

        Raises:
          ValueError: a prompt ends with another token than in `prompt_table`, which `reset` observes.
        """
        limit = self._limit(width)

        def latest(prompt: int, shown: Sequence[str]) -> str:
            def fits(left_out: int) -> bool:
                whole = "".join(self._parts(prompt, question(prompt, shown[left_out:])))
                return len(self._encoded([whole])[0]) <= limit

            left_out = 0 if fits(0) else bisect.bisect_left(range(len(shown)), True, key=fits)
            return question(prompt, shown[left_out:])

        prompts = self._padded(index, [latest(int(i), texts) for i, texts in zip(index, shown, strict=True)], width)
        differs = prompts.tokens[:, -1] != self.prompt_table.tokens[prompts.index, -1]
        if differs.any():
            raise ValueError(
                f"prompt {prompts.index[differs][0]} ends with another token when it quotes answers than when not: "
                "set a beginning, with which all prompts end, or take a model with a chat template"
            )
        return prompts

    def _limit(self, width: int | None) -> int:
        return self.longest_prompt if width is None else min(width, self.longest_prompt)

    def _beginning(self, prompt: int) -> str:
        return self.beginning or self.task.beginning(prompt)

    @functools.cached_property
    def _goes_on(self) -> bool:
        """Whether an answer goes on in the line of a beginning, so that a space comes first."""
        beginnings = [self._beginning(prompt) for prompt in range(self.num_prompts)]
        return any(beginning and not beginning[-1].isspace() for beginning in beginnings)

    def _question(self, prompt: int, history: Sequence[str] = ()) -> str:
        beginning = self._beginning(prompt)
        if beginning and not history and self._template is None:
            return beginning
        return self.task.prompt_text(prompt, history).strip()

    def _encoded(self, wholes: list[str]) -> list[list[Token]]:
        # A template itself writes the beginning of a text.
        return prompt_tokens(self.tokenizer, wholes, begins=self._template is None)

    def _padded(self, index: Sequence[int] | np.ndarray, questions: Sequence[str], width: int | None) -> Prompts:
        """The prompts `index` with these questions, as NumPy arrays; `width` columns, or as few as needed."""
        parts = [self._parts(int(prompt), question) for prompt, question in zip(index, questions, strict=True)]
        encoded = self._encoded(["".join(part) for part in parts])
        lengths = list(map(len, encoded))
        limit = self._limit(width)
        if max(lengths) > limit:
            longest = int(np.argmax(lengths))
            raise ValueError(
                f"prompt {index[longest]} has {lengths[longest]} tokens, more than the {limit} that are allowed: raise "
                "longest_prompt, or ask shorter questions"
            )
        width = max(lengths) if width is None else width
        tokens = np.full((len(parts), width), PADDING, np.int32)
        mask, question_mask = np.zeros(tokens.shape, bool), np.zeros(tokens.shape, bool)
        for i, ((asked, _), question) in enumerate(zip(parts, questions, strict=True)):
            start = asked.rfind(question)
            if start < 0:
                raise ValueError(f"the chat template in {self.tokenizer_dir} changes the words of prompt {index[i]}")
            real = slice(width - lengths[i], width)
            tokens[i, real], mask[i, real] = [token for token, _ in encoded[i]], True
            question_mask[i, real] = [
                max(first, start) < min(last, start + len(question)) for _, (first, last) in encoded[i]
            ]
            if not question_mask[i].any():
                raise ValueError(
                    f"the tokenizer in {self.tokenizer_dir} has no tokens for the words of prompt {index[i]}: copy all "
                    "files of the tokenizer again"
                )
            last = int(tokens[i, -1])
            if last in self.stop_tokens and last in self.tokenizer.added_tokens_decoder:
                raise ValueError(
                    f"prompt {index[i]} ends with {self.tokenizer.convert_ids_to_tokens(last)!r}, which ends answers, "
                    f"so nothing can follow: the chat template in {self.tokenizer_dir} must begin the model's turn"
                )
        return Prompts(np.asarray(index, np.int32), tokens, mask, question_mask)

    def _parts(self, prompt: int, question: str) -> tuple[str, str]:
        """The text of a prompt up to the model's turn, and the words with which that begins."""
        beginning = self._beginning(prompt)
        if self._template is not None:
            return self._template.text([{"role": "user", "content": question}]), beginning
        asked = f"{self.system_prompt}\n\n{question}" if self.system_prompt else question
        return (asked, "") if question == beginning else (f"{asked}\n", beginning)
