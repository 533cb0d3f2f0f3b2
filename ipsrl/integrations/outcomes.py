"""Outcomes of answers: ready-made functions `outcome_of(prompt, completion, **columns)` for language-model trainers.

`prompt` and `completion` are texts, or lists of messages as TRL has them; `columns` are the other columns of the data
set's row. The result is any hashable, equal where two answers to a prompt count as the same outcome, or None for an
answer that is none.
"""

import dataclasses
import importlib.util
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ipsrl.checking.fields import Checked, open_probability
from ipsrl.environments.reading.expressions import canonical, read_expression
from ipsrl.environments.reading.numeric_answers import read_number

Text = str | Sequence[Mapping[str, Any]]
"""A text, or messages with "role" and "content"."""
OutcomeOf = Callable[..., Hashable | None]


def exact_text(prompt: Text, completion: Text, **columns: Any) -> str:
    """The text itself, without space around it: only equal texts are the same outcome."""
    return text_of(completion).strip()


def last_number(prompt: Text, completion: Text, **columns: Any) -> Hashable | None:
    """The number that a solution ends with, as an exact fraction; None if there is none.

    Read by the package math-verify where the extra `[math]` has installed it, else by
    `ipsrl.environments.reading.numeric_answers`.
    """
    if importlib.util.find_spec("math_verify") is None:
        return read_number(text_of(completion))
    from ipsrl.environments.reading.math_verify_answers import read_by_math_verify

    return read_by_math_verify(text_of(completion))


def expression(prompt: Text, completion: Text, **columns: Any) -> Hashable | None:
    """The arithmetic expression of an answer in canonical form; None if there is none.

    `ipsrl.environments.reading.expressions` says which expressions are the same.
    """
    tree = read_expression(text_of(completion))
    return None if tree is None else canonical(tree)


def tool_calls(prompt: Text, completion: Text, **columns: Any) -> Hashable | None:
    """The names and arguments of all tool calls of an answer, in their order; None for a text, or without a call."""
    if isinstance(completion, str):
        return None
    calls = [call["function"] for message in completion for call in message.get("tool_calls") or ()]
    return tuple((call["name"], _in_order(call["arguments"])) for call in calls) or None


@dataclasses.dataclass(frozen=True)
class EmbeddingClusters(Checked):
    """Clusters of answers whose embeddings are alike: the first cluster of the prompt that is near, or a new one.

    An answer belongs to a cluster if the cosine of its embedding and that of the cluster's first answer is at least
    `threshold`. Clusters are kept from batch to batch.

    Attributes:
      encode: text -> vector.
      threshold: between 0 and 1.
    """

    encode: Callable[[str], Sequence[float]]
    threshold: float = open_probability(0.8)
    _centres: dict[str, list[np.ndarray]] = dataclasses.field(default_factory=dict, init=False, compare=False)

    def __call__(self, prompt: Text, completion: Text, **columns: Any) -> int | None:
        """The number of the cluster; None for an embedding that is 0 or not finite."""
        vector = np.asarray(self.encode(text_of(completion)), float)
        length = np.linalg.norm(vector)
        if not (np.isfinite(length) and length > 0):
            return None
        centres = self._centres.setdefault(text_of(prompt), [])
        near = [number for number, centre in enumerate(centres) if centre @ vector >= self.threshold * length]
        if near:
            return near[0]
        centres.append(vector / length)
        return len(centres) - 1


def text_of(text: Text) -> str:
    """A text, or the contents of messages one below the other."""
    if isinstance(text, str):
        return text
    contents = [message.get("content") or "" for message in text]
    return "\n".join(content if isinstance(content, str) else _in_order(content) for content in contents)


def _in_order(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
