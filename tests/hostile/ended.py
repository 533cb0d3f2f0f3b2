"""Ends that a fuzzer accepts: a value, or one sentence."""

from collections.abc import Callable
from typing import Any

REFUSALS = (ValueError, OSError)
LONGEST = 600


def value_or_sentence(function: Callable[..., Any], *arguments: Any, refusals=REFUSALS, **named: Any) -> Any:
    """The value of a call, or None if it was refused in one sentence; any other exception is raised."""
    try:
        return function(*arguments, **named)
    except refusals as error:
        refused = error
    said = str(refused).strip()
    assert said, f"{type(refused).__name__} without a sentence"
    assert len(said) <= LONGEST, said
    assert "\n" not in said, said
    return None
