"""Rows of stored groups, such as `{"prompt": 3, "answers": [[5, 2], [7, 2]], "rewards": [1, 0]}`."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from ipsrl.checking.arguments import shown
from ipsrl.environments.environment import Environment, require_tokens

KEYS = frozenset({"prompt", "answers", "rewards", "outcomes", "log_probs", "own", "history"})


def checked_row(row: Mapping[str, Any], number: int, environment: Environment) -> dict[str, Any]:
    """A row, after a look at its keys, types and sizes, as vectors; what they may hold is checked for all rows."""
    if not isinstance(row, Mapping):
        raise ValueError(f"row {number} must have names and values, as {{'prompt': 3, 'answers': ...}}, not {row!r}")
    if unknown := set(row) - KEYS:
        raise ValueError(f"row {number} has an unknown key {min(unknown, key=str)!r}; known: {', '.join(sorted(KEYS))}")
    for key in ("prompt", "answers"):
        if key not in row:
            raise ValueError(f"row {number} has no {key!r}")
    if type(row["prompt"]) is bool or not isinstance(row["prompt"], int | np.integer):
        raise ValueError(f"row {number} has prompt {row['prompt']!r}, which is not the number of a prompt")
    given, longest = row["answers"], environment.max_tokens
    if not (isinstance(given, Sequence | np.ndarray) and len(given)):
        raise ValueError(f"row {number} has no answers: give a list of lists of token ids")
    answers: list[np.ndarray] = []
    for place, answer in enumerate((_vector(answer, "iu") for answer in given), start=1):
        if answer is None or not 1 <= len(answer) <= longest:
            raise ValueError(
                f"answer {place} of row {number} must have 1 to {longest} token ids, not {given[place - 1]!r}"
            )
        answers.append(answer)
    checked: dict[str, Any] = {"prompt": int(row["prompt"]), "answers": answers}
    for key, kinds in (("rewards", "biuf"), ("outcomes", "iu")):
        if key in row:
            checked[key] = _vector(row[key], kinds)
            if checked[key] is None or len(checked[key]) != len(answers):
                raise ValueError(
                    f"row {number} must have {len(answers)} finite numbers as {key}, not {shown(row[key])}"
                )
    if "history" in row:
        checked["history"] = _history(row["history"], number, environment)
    each_token = {"log_probs": ("if", "finite log-probability"), "own": ("b", "True or False in own")}
    for key in each_token.keys() & row.keys():
        kinds, what = each_token[key]
        found = row[key] if isinstance(row[key], Sequence | np.ndarray) else ()
        checked[key] = [_vector(values, kinds) for values in found]
        sizes = [None if values is None else len(values) for values in checked[key]]
        if sizes != list(map(len, answers)):
            raise ValueError(f"row {number} needs one {what} for each token of its answers")
    return checked


def _history(given: Any, number: int, environment: Environment) -> list[list[int]]:
    if not hasattr(environment, "prompts_with_history"):
        raise ValueError(f"row {number} has a history, which the prompts of {type(environment).__name__} do not show")
    if not isinstance(given, Sequence | np.ndarray):
        raise ValueError(f"row {number} must have a list of lists of token ids as history, not {given!r}")
    return [
        require_tokens(f"part {place} of the history of row {number}", part, environment.vocabulary_size)
        for place, part in enumerate(given, start=1)
    ]


def _vector(values: Any, kinds: str) -> np.ndarray | None:
    numbers = numbers_in(values, kinds)
    return numbers if numbers is not None and numbers.ndim == 1 else None


def numbers_in(values: Any, kinds: str) -> np.ndarray | None:
    """Values as an array of finite numbers of one of NumPy's kinds, integers of 32 bits; None if they are not."""
    try:
        numbers = np.asarray(values)
        # Whole numbers that are too large for NumPy's, of which only the size is wrong.
        if "f" in kinds and numbers.dtype == object and all(isinstance(number, Real) for number in numbers.flat):
            numbers = numbers.astype(np.float64)
    except (OverflowError, ValueError):
        return None
    if numbers.dtype.kind not in kinds:
        return None
    fits = np.isfinite(numbers) if numbers.dtype.kind in "bf" else (numbers >= -(2**31)) & (numbers < 2**31)
    return numbers if fits.all() else None
