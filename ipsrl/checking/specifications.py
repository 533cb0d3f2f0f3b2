"""Texts such as `ips_grpo(alpha=0.5, floor=0.2)`, by which flags, sweeps and notebooks name objects.

The grammar is Python's for calls with keyword arguments; bare words are strings, so no quotes are needed on a command
line. Nothing is ever evaluated. Arguments may have arguments of their own, of which the first may go without their
names, as in `grpo(kl=k3(0.04, target=6))`: the type of such an argument is a class with `NAMED`, name -> function that
makes one; the name alone is the function without arguments.
"""

import ast
import dataclasses
import difflib
import inspect
import itertools
import keyword
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ipsrl.checking.arguments import allowed_by, checked

# Of a longer text, messages show the beginning.
SHOWN = 100
# Up to this many names, messages list all instead of guessing; of more, those that fit into so many characters.
FEW_NAMES, LONGEST_LIST = 8, 400
SMALLEST, LARGEST = 1e-37, 1e38
"""Range of the size of a number other than 0: outside it, the number is 0 or infinite in float32."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A name with arguments, as written: `k3(0.04, target=6)`."""

    name: str
    positional: tuple[Any, ...] = ()
    arguments: tuple[tuple[str, Any], ...] = ()

    def __repr__(self) -> str:
        inside = [*map(_show, self.positional), *(f"{key}={_show(value)}" for key, value in self.arguments)]
        return f"{self.name}({', '.join(inside)})" if inside else self.name


@checked
def split(text: str) -> tuple[str, ...]:
    """Splits `"grpo, ips_grpo(floor=0.2)"` into its specifications, each in normal form.

    Raises:
      ValueError: the text is not a list of `name` or `name(argument=value, ...)`, is empty, or is nested too deeply.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
        items = node.elts if isinstance(node, ast.Tuple) else [node]
        read = tuple(normal_form(*_parse(item)) for item in items)
    except SyntaxError:
        raise ValueError(
            f"cannot read {shortened(text)}: write name or name(argument=value, ...), separated by commas"
        ) from None
    # Python's parser, and all that walks through what it returns, recurse at each level.
    except (MemoryError, RecursionError):
        raise ValueError(f"cannot read {shortened(text)}: it is nested too deeply") from None
    if not read:
        raise ValueError(f"{text!r} is an empty list: write at least one name")
    return read


def by_name(text: str, what: str) -> dict[str, str]:
    """The name of each specification in a text -> the specification; none in an empty text.

    Raises:
      ValueError: as `split`, or a name is given twice; `what` says of what it is the name.
    """
    found: dict[str, str] = {}
    for specification in split(text) if text.strip() else ():
        name = specification.partition("(")[0]
        if name in found:
            raise ValueError(f"the {what} {name} is given twice in {text!r}: give each one once")
        found[name] = specification
    return found


def normal_form(name: str, arguments: Mapping[str, Any]) -> str:
    """The specification of a name and its arguments; `split` reads it."""
    return repr(Call(name, arguments=tuple(arguments.items())))


@checked
def with_argument(text: str, name: str, value: Any) -> str:
    """One specification with an argument set: `("ips_grpo", "floor", 0.2)` -> `ips_grpo(floor=0.2)`.

    Raises:
      ValueError: the text is not one specification.
    """
    callee, arguments = _only(text, "specification")
    return normal_form(callee, arguments | {name: value})


@checked
def build(text: str, catalog: Mapping[str, Callable[..., Any]], kind: str) -> Any:
    """Calls the function of `catalog` named in `text`, with the arguments in `text`.

    Args:
      text: `name` or `name(argument=value, ...)`.
      catalog: name -> function (or class) with annotated keyword arguments.
      kind: kind of the objects, for messages: `objective`, `environment`, ...

    Raises:
      ValueError: unknown name, unknown argument, or a value of the wrong type; the message suggests known names.
    """
    function, arguments = read(text, catalog, kind)
    return function(**arguments)


def read(
    text: str,
    catalog: Mapping[str, Callable[..., Any]],
    kind: str,
    shared: Mapping[str, Any] = types.MappingProxyType({}),
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function that `build` would call, and its arguments; raises as `build`, but for what the function raises.

    Args:
      text, catalog, kind: as in `build`.
      shared: name -> type of optional arguments that every text may have, besides those of its function.
    """
    name, arguments = _only(text, kind)
    if name not in catalog:
        raise ValueError(f"unknown {kind} {shortened(name)}; {did_you_mean(name, sorted(catalog))}")
    return catalog[name], _fitting(catalog[name], f"{kind} {name!r}", arguments, shared)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: similar names, or all if there are few or none is similar."""
    known = list(known)
    close = difflib.get_close_matches(name[:SHOWN], known) if len(known) > FEW_NAMES else []
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known: {_listed(known)}"


def _listed(names: Sequence[str]) -> str:
    """Names between commas, as many as fit into `LONGEST_LIST`, and how many are left out."""
    lengths = itertools.accumulate(len(name) + 2 for name in names)
    fitting = [name for name, length in zip(names, lengths, strict=True) if length <= LONGEST_LIST]
    left_out = f" and {len(names) - len(fitting)} more" if len(fitting) < len(names) else ""
    return f"{', '.join(fitting) or 'none'}{left_out}"


def _fitting(
    function: Callable[..., Any], what: str, arguments: Mapping[str, Any], shared: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call, after a look at their names and types; `what` begins the messages."""
    parameters = inspect.signature(function).parameters
    hints = {**typing.get_type_hints(function.__init__ if inspect.isclass(function) else function), **shared}
    known, given = [*parameters, *shared], {}
    for key, value in arguments.items():
        if key not in known:
            raise ValueError(f"{what} has no argument {shortened(key)}; {did_you_mean(key, known)}")
        given[key] = _nested(value, hints[key], what, key)
        if not allowed_by(hints[key]).holds(given[key]):
            # In Python's grammar (12) is a number.
            instead = f"; write {_show((value,))}" if allowed_by(hints[key]).holds((given[key],)) else ""
            raise ValueError(f"{what}: {key}={_show(value)} is not {_describe(hints[key])}{instead}")
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in arguments]
    if missing:
        raise ValueError(f"{what} needs a value for {', '.join(missing)}")
    return given


def _nested(value: Any, hint: Any, what: str, key: str) -> Any:
    """The value itself, or what the function that it names makes of its arguments."""
    named = _named(hint)
    if isinstance(value, str) and value in named:
        value = Call(value)
    if not isinstance(value, Call):
        return value
    if value.name not in named:
        known = did_you_mean(value.name, named) if named else "this argument has no arguments of its own"
        raise ValueError(f"{what}: unknown {key} {value.name!r}; {known}")
    function, arguments = named[value.name], dict(value.arguments)
    places = [place for place in inspect.signature(function).parameters if place not in arguments]
    if len(value.positional) > len(places):
        raise ValueError(f"{what}: {key}={value} has too many arguments")
    given = dict(zip(places, value.positional, strict=False)) | arguments
    return function(**_fitting(function, f"{what}: {key} {value.name!r}", given, {}))


def _named(hint: Any) -> dict[str, Callable[..., Any]]:
    """Name -> function, of all classes that a type hint allows."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return {name: made for option in options for name, made in getattr(option, "NAMED", {}).items()}


def _only(text: str, kind: str) -> tuple[str, dict[str, Any]]:
    items = split(text)
    if len(items) != 1:
        raise ValueError(f"expected one {kind}, got {len(items)} in {shortened(text)}")
    return _parse(ast.parse(items[0], mode="eval").body)


def _parse(node: ast.expr) -> tuple[str, dict[str, Any]]:
    if isinstance(node, ast.Name):
        return node.id, {}
    # A keyword without a name unpacks a mapping, as in name(**more).
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and not node.args
        and all(keyword.arg for keyword in node.keywords)
    ):
        arguments = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
        if len(arguments) < len(node.keywords):
            raise ValueError(f"{shortened(ast.unparse(node))} gives an argument twice: give each one once")
        return node.func.id, arguments
    raise ValueError(f"cannot read {shortened(ast.unparse(node))}: write name or name(argument=value, ...)")


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        keywords = [keyword.arg for keyword in node.keywords]
        if None in keywords or len(set(keywords)) < len(keywords):
            raise ValueError(f"cannot read {shortened(ast.unparse(node))}: write name(value, argument=value, ...)")
        arguments = tuple((str(keyword.arg), _value(keyword.value)) for keyword in node.keywords)
        return Call(node.func.id, tuple(map(_value, node.args)), arguments)
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_value(item) for item in node.elts)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        value = ...
    if not isinstance(value, str | int | float | None):
        raise ValueError(f"{shortened(ast.unparse(node))} is not a number, word, True, False, None or tuple of these")
    if isinstance(value, int | float) and not is_in_range(value):
        raise ValueError(
            f"{shortened(ast.unparse(node))} is no number that is 0 or of a size from {SMALLEST:g} to {LARGEST:g}"
        )
    return value


def is_in_range(number: float) -> bool:
    """Whether a number, if it is not 0, is neither 0 nor infinite in float32; see `SMALLEST` and `LARGEST`."""
    return number == 0 or SMALLEST <= abs(number) <= LARGEST


def shortened(text: str) -> str:
    """A text for a message: in quotes, and of a long one the beginning."""
    return repr(text) if len(text) <= SHOWN else f"{text[:SHOWN]!r}... ({len(text)} characters)"


def _show(value: Any) -> str:
    # Python reads an identifier that is not in ASCII as a normalised one.
    is_word = isinstance(value, str) and value.isascii() and value.isidentifier() and not keyword.iskeyword(value)
    return value if is_word else repr(value)


def _describe(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal or hasattr(hint, "NAMED"):
        return f"one of {_listed(_words(hint))}"
    if origin in (typing.Union, types.UnionType):
        words = f"one of {_listed(_words(hint))}"
        return " or ".join(dict.fromkeys(words if _words(option) else _describe(option) for option in inner))
    if origin is tuple:
        many = "" if Ellipsis in inner else f"{len(inner)} times "
        return f"a tuple of {many}{_describe(inner[0])}"
    if origin is Callable:
        return "a function, which can be given in Python only"
    return {float: "a number", int: "a whole number", str: "a word", bool: "True or False"}.get(hint, "None")


def _words(hint: Any) -> list[str]:
    """The texts that may stand for an argument of a type: its words, and names as `exact(...)`, each once."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        found = list(dict.fromkeys(word for option in inner for word in _words(option)))
        return [word for word in found if f"{word}(...)" not in found]
    return list(map(str, inner)) if origin is typing.Literal else [f"{name}(...)" for name in _named(hint)]
