"""An objective as a sentence, as its paper's own summary: `group mean and std -> clip 0.2 -> sequence mean`."""

import dataclasses
import re
from typing import Any


def in_words(part: Any) -> str:
    """A part: what its class is called, the limits of a clip, a coefficient, and other fields that are not at defaults.

    `ClippedRatio(0.2, 0.28)` is "clip 0.2/0.28", `KullbackLeibler(0.04, "k2")` "KL 0.04, estimator k2", `TokenMean()`
    "token mean", and a function its name.
    """
    if not dataclasses.is_dataclass(part):
        return getattr(part, "__name__", str(part)).replace("_", " ")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(part).__name__).lower()
    defaults = {field.name: field.default for field in dataclasses.fields(part)}
    values = {name: getattr(part, name) for name in defaults}
    sizes = {"low", "high"} if {"low", "high"} <= values.keys() else {"coefficient"} & values.keys()
    # A coefficient that is adapted begins at 0.
    given = [value for name, value in values.items() if name in sizes and (value or name != "coefficient")]
    shown = dict.fromkeys(_value(value) for value in given if value is not None)
    # A class that inherits from another one is another part.
    called = " ".join([vars(type(part)).get("CALLED", words), *filter(None, ["/".join(shown)])])
    changed = [name for name in values if name not in sizes and values[name] != defaults[name]]
    return ", ".join([called, *(_field(name, values[name]) for name in changed)])


def _field(name: str, value: Any) -> str:
    words = name.replace("_", " ")
    if value is None or isinstance(value, bool):
        return words if value else f"no {words}"
    return f"{words} {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return "/".join(map(_value, value))
    if isinstance(value, int | float):
        return f"{value:g}"
    return value.replace("_", " ") if isinstance(value, str) else f"({in_words(value)})"
