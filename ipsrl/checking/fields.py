"""Types and ranges of dataclass fields, declared with the field and checked in one place.

    @dataclasses.dataclass(frozen=True)
    class Clip(Checked):
        low: float = probability(0.2)  # from 0 to 1, by default 0.2
        epochs: int = at_least(1, 4)  # 1 or more, by default 4

Bounds come first, the default last; without one the field must be given. `Clip(low=2)` raises ValueError: "low is 2, it
must lie between 0 and 1", and `Clip(epochs=2.5)` "epochs is 2.5, it must be a whole number", as its annotation says
(see `ipsrl.checking.arguments`). The range of a tuple holds for each item, and None is accepted where the annotation
allows it, so an optional field needs no range of its own. A bound that depends on the fields above is a function of the
object, `between(1, lambda clip: clip.epochs, 2)`. Other conditions on several fields belong in the class's own
`__post_init__`, after `super().__post_init__()`.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, get_args

from ipsrl.checking.arguments import accepted, asks_for_array, shown


@dataclasses.dataclass(frozen=True)
class Range:
    """The values that a field may have.

    Attributes:
      phrase: ends the sentence "it must ...".
      holds: whether a value is allowed; of an array, which of its numbers are.
      of_whole: whether `holds` takes a tuple as a whole instead of each element.
      called: name of the field in messages; "" for its own name.
    """

    phrase: str
    holds: Callable[[Any], Any]
    of_whole: bool = False
    called: str = ""


@dataclasses.dataclass(frozen=True)
class Checked:
    """Base of dataclasses whose fields declare their types and ranges; construction raises ValueError outside them."""

    FIELD_PREFIX: ClassVar[str] = ""
    """Precedes the names of fields in messages: `--` if fields are flags."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if not field.init:
                continue
            value, allowed = getattr(self, field.name), field.metadata.get("range")
            if callable(allowed):
                allowed = allowed(self)
            called = (allowed and allowed.called) or f"{self.FIELD_PREFIX}{field.name}"
            if not asks_for_array(field.type):
                if (taken := accepted(called, value, field.type)) is not value:
                    object.__setattr__(self, field.name, taken)
                if field.compare if field.hash is None else field.hash:
                    _require_hashable(called, value)
            if allowed is None:
                continue
            for part in value if isinstance(value, tuple) and not allowed.of_whole else (value,):
                if part is not None and not allowed.holds(part):
                    or_none = ", or None" if type(None) in get_args(field.type) else ""
                    # Where a bound depends on other fields, this one may not have been given.
                    by_default = " (its default)" if value is field.default else ""
                    raise ValueError(f"{called} is {shown(part)}{by_default}, it must {allowed.phrase}{or_none}")


def _require_hashable(called: str, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise ValueError(
            f"{called} is {shown(value)}, it must be hashable: of an array with one number take its item()"
        ) from None


def in_range(allowed: Range | Callable[[Any], Range], default: Any = dataclasses.MISSING) -> Any:
    """A field with the given range, or with one that is a function of the object, whose fields above are in range."""
    return dataclasses.field(default=default, metadata={"range": allowed})


def positive(default: Any = dataclasses.MISSING, called: str = "") -> Any:
    """A positive, finite field."""
    return in_range(Range("be positive and finite", lambda number: 0 < number < math.inf, called=called), default)


def non_negative(default: Any = dataclasses.MISSING, called: str = "") -> Any:
    """A non-negative, finite field."""
    return in_range(Range("be finite and not negative", lambda number: 0 <= number < math.inf, called=called), default)


def finite(default: Any = dataclasses.MISSING, called: str = "") -> Any:
    """A field that is neither infinite nor NaN."""
    return in_range(Range("be finite", math.isfinite, called=called), default)


def at_least(least: float, default: Any = dataclasses.MISSING, called: str = "") -> Any:
    """A field of at least `least`."""
    return in_range(Range(f"be at least {least}", lambda number: number >= least, called=called), default)


def above(bound: float, default: Any = dataclasses.MISSING, called: str = "") -> Any:
    """A finite field above `bound`."""
    phrase = f"be finite and above {bound}"
    return in_range(Range(phrase, lambda number: bound < number < math.inf, called=called), default)


def between(
    low: float | Callable[[Any], float],
    high: float | Callable[[Any], float],
    default: Any = dataclasses.MISSING,
    called: str = "",
) -> Any:
    """A field from `low` to `high`, both included; a bound may be a function of the object."""

    def of(checked: Any) -> Range:
        least, most = (bound(checked) if callable(bound) else bound for bound in (low, high))
        return Range(f"lie between {least} and {most}", lambda number: least <= number <= most, called=called)

    return in_range(of if callable(low) or callable(high) else of(None), default)


def probability(default: Any = dataclasses.MISSING, called: str = "") -> Any:
    """A field from 0 to 1, both included."""
    return between(0, 1, default, called)


def open_probability(default: Any = dataclasses.MISSING, called: str = "") -> Any:
    """A field strictly between 0 and 1."""
    return in_range(Range("lie strictly between 0 and 1", lambda number: 0 < number < 1, called=called), default)


def share(default: Any = dataclasses.MISSING, called: str = "") -> Any:
    """A field above 0 and at most 1."""
    return in_range(Range("lie above 0 and not above 1", lambda number: 0 < number <= 1, called=called), default)


def below_one(default: Any = dataclasses.MISSING, called: str = "") -> Any:
    """A field of at least 0 and below 1."""
    return in_range(Range("be at least 0 and below 1", lambda number: 0 <= number < 1, called=called), default)


def accepted_by(check: Callable[[Any], Any], default: Any = dataclasses.MISSING) -> Any:
    """A field of values that `check` accepts; for others it raises ValueError with the whole sentence."""

    def holds(value: Any) -> bool:
        check(value)
        return True

    return in_range(Range("", holds), default)


def one_of(*options: Any, default: Any = dataclasses.MISSING) -> Any:
    """A field with one of the given values."""
    return in_range(Range(f"be one of {', '.join(map(str, options))}", lambda value: value in options), default)


def any_of(options: Iterable[str]) -> Any:
    """A field of some of these names, by default all."""
    options = tuple(options)
    return one_of(*options, default=options)
