"""Checks of arguments and fields by their annotations: a value of another type is refused where a call enters.

    @checked
    def flow_velocity(logits: np.ndarray, rewards: np.ndarray, alpha: float) -> np.ndarray: ...

`flow_velocity([0.0, "x"], (1.0, 0.5), 1.0)` raises ValueError: "logits is [0.0, 'x'], it must be an array of finite
numbers". The same holds for the fields of `ipsrl.checking.fields.Checked`. All of the API follows these rules:

- A number is never a text or a bool, and a whole number never a float. Numbers of NumPy and JAX are numbers,
  and those of NumPy become ones of Python. Classes that check their fields themselves, such as `Bandit`, keep them.
- Where an array is asked for, a list or a tuple of numbers becomes one. Arrays of the host (`np.ndarray`) hold finite
  numbers; those of the device (`jax.Array`) are not looked into here, so that nothing waits for them.
- Fields are hashed, so neither is a list taken for a tuple, nor an array for a number. A class that has arrays checks
  them itself.
- A class stands for its objects, also as the text "package.Class" where the package is imported late, and a protocol
  for every object that has its members, but for those in `NOT_REQUIRED`.

Nothing here is part of a compiled program: tracers are recognised by their type. This module needs only the standard
library, because the processes that read answers import it; what arrays are is in `arrays`.
"""

import collections.abc
import dataclasses
import functools
import inspect
import itertools
import math
import numbers
import operator
import reprlib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
NOT_REQUIRED: dict[type, tuple[str, ...]] = {}
"""Protocol -> members that an object may lack."""
MADE_BY: dict[type, str] = {}
"""Class -> the call that makes an object of it from a text, for those whose objects have names."""
REFUSED = object()
"""Stand-in for a value that an annotation does not allow."""


@dataclasses.dataclass(frozen=True)
class Allowed:
    """The values that an annotation allows.

    Attributes:
      described: ends the sentence "it must be ...".
      take: the value, as an array where one is asked for, a number of NumPy as one of Python, or `REFUSED`.
    """

    described: str
    take: Callable[[Any], Any]

    def holds(self, value: Any) -> bool:
        """Whether the annotation allows a value."""
        return self.take(value) is not REFUSED


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxtuple, _SHORT.maxlist, _SHORT.maxdict = 3, 8, 8, 4
_SHORT.maxstring, _SHORT.maxlong, _SHORT.maxother = 60, 40, 80


def shown(value: Any) -> str:
    """A value for a message: of a long one the beginning, on one line."""
    return " ".join(_SHORT.repr(value).split())


def accepted(name: str, value: Any, hint: Any) -> Any:
    """The value, as an array where the annotation asks for one, and a number of NumPy as one of Python.

    Raises:
      ValueError: the annotation does not allow the value.
    """
    allowed = allowed_by(hint)
    if (taken := allowed.take(value)) is REFUSED:
        raise ValueError(f"{name} is {shown(value)}, it must be {allowed.described}")
    return taken


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """A function that refuses arguments of other types than its annotations say, and is else the same.

    Raises:
      ValueError: an argument has another type; the message names it.
    """
    parameters = inspect.signature(function).parameters.values()
    hints = {parameter.name: parameter.annotation for parameter in parameters}
    in_order = [(p.name, p.annotation) for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    further = [(p.name, p.annotation) for p in parameters if p.kind == p.VAR_POSITIONAL]

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> R:
        expected = itertools.chain(in_order, itertools.cycle(further))
        taken = [accepted(name, value, hint) for value, (name, hint) in zip(given, expected, strict=False)]
        for name, value in named.items():
            named[name] = accepted(name, value, hints.get(name, Any))
        # Arguments that there are too many of are Python's to refuse.
        return function(*taken, *given[len(taken) :], **named)

    return call


@functools.cache
def allowed_by(hint: Any) -> Allowed:
    """The values that an annotation allows; all, if it is none of those that this module describes."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if isinstance(hint, str) and "." in hint:
        name = hint.rpartition(".")[2]
        return _those(_with_article(name), lambda value: name in (base.__name__ for base in type(value).__mro__))
    if origin is typing.Literal:
        return _those(f"one of {', '.join(map(str, inner))}", lambda value: isinstance(value, str) and value in inner)
    if origin in (typing.Union, types.UnionType):
        return _any_of([allowed_by(option) for option in inner])
    if origin is tuple:
        return _tuple_of(inner)
    if origin in (collections.abc.Sequence, collections.abc.Iterable):
        return _list_of(allowed_by(inner[0]), origin is collections.abc.Iterable)
    if origin is collections.abc.Callable:
        return _those("a function", callable)
    hint = origin or hint
    if not inspect.isclass(hint):
        return SIMPLE[Any]
    if asks_for_array(hint):
        from ipsrl.checking import arrays

        return getattr(arrays, ARRAYS[_name(hint)])
    if getattr(hint, "_is_protocol", False):
        return _like(hint)
    if issubclass(hint, Mapping):
        return _those("a dict", lambda value: isinstance(value, Mapping))
    return _those(_object_of(hint), lambda value: isinstance(value, hint))


def asks_for_array(hint: Any) -> bool:
    """Whether an annotation allows an array."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(map(asks_for_array, typing.get_args(hint)))
    return inspect.isclass(hint) and _name(hint) in ARRAYS


def _name(annotation: type) -> str:
    """`numpy.ndarray`, also where the class lies deeper inside the package."""
    return f"{annotation.__module__.partition('.')[0]}.{annotation.__name__.rpartition('.')[2]}"


def _those(described: str, holds: Callable[[Any], bool]) -> Allowed:
    return Allowed(described, lambda value: value if holds(value) else REFUSED)


def _any_of(options: Sequence[Allowed]) -> Allowed:
    def take(value: Any) -> Any:
        return next((taken for option in options if (taken := option.take(value)) is not REFUSED), REFUSED)

    return Allowed(" or ".join(dict.fromkeys(option.described for option in options)), take)


def _tuple_of(inner: tuple) -> Allowed:
    each, length = allowed_by(inner[0]), None if Ellipsis in inner else len(inner)

    def take(value: Any) -> Any:
        if not isinstance(value, tuple) or length not in (None, len(value)):
            return REFUSED
        taken = tuple(map(each.take, value))
        if any(item is REFUSED for item in taken):
            return REFUSED
        return value if all(map(operator.is_, taken, value)) else taken

    return Allowed(f"a tuple{'' if length is None else f' of {length}'} (each item {each.described})", take)


def _list_of(each: Allowed, any_iterable: bool) -> Allowed:
    def holds(value: Any) -> bool:
        if isinstance(value, str | bytes):
            return False
        # What may be read but once is left to the function.
        if any_iterable:
            return isinstance(value, collections.abc.Iterable)
        return (isinstance(value, Sequence) or getattr(value, "ndim", 0) > 0) and all(map(each.holds, value))

    return _those(f"a list (each item {each.described})", holds)


def _like(protocol: type) -> Allowed:
    members = {
        name
        for base in protocol.__mro__
        if getattr(base, "_is_protocol", False)
        for name in {**vars(base), **vars(base).get("__annotations__", {})}
        if not name.startswith("_") or name == "__call__"
    }.difference(*(NOT_REQUIRED.get(base, ()) for base in protocol.__mro__))

    # Properties are not asked for their values: some are tables that take seconds.
    def holds(value: Any) -> bool:
        fields = getattr(value, "__dataclass_fields__", {})
        return not inspect.isclass(value) and all(
            name in fields or inspect.getattr_static(value, name, REFUSED) is not REFUSED for name in members
        )

    return _those(_object_of(protocol), holds)


def _object_of(hint: type) -> str:
    made = MADE_BY.get(hint)
    return _with_article(hint.__name__) + (f" ({made} makes one)" if made else "")


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _is_number(value: Any) -> bool:
    if isinstance(value, numbers.Real):
        try:
            return not isinstance(value, bool) and math.isfinite(value)
        except OverflowError:
            return False
    if hasattr(value, "ndim"):
        from ipsrl.checking.arrays import is_number

        return is_number(value)
    return False


def _whole(value: Any) -> Any:
    return _plain(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else REFUSED


def _plain(number: Any) -> Any:
    """A number of NumPy as one of Python, which everything takes."""
    return number.item() if isinstance(number, numbers.Number) and hasattr(number, "item") else number


SIMPLE: dict[Any, Allowed] = {
    Any: _those("anything", lambda value: True),
    inspect.Parameter.empty: _those("anything", lambda value: True),
    type(None): _those("None", lambda value: value is None),
    float: Allowed("a finite number", lambda value: _plain(value) if _is_number(value) else REFUSED),
    int: Allowed("a whole number", _whole),
    bool: _those("True or False", lambda value: isinstance(value, bool)),
    str: _those("a text", lambda value: isinstance(value, str)),
}
ARRAYS = {"numpy.ndarray": "HOST_ARRAY", "jax.Array": "DEVICE_ARRAY"}
"""Name of an annotation -> what it allows, in `arrays`."""
