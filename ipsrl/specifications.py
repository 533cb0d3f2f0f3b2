"""Texts such as `ips_grpo(alpha=0.5, floor=0.2)`, by which flags, sweeps and notebooks name objects.

The grammar is Python's for calls with keyword arguments; bare words are strings, so no quotes are needed on a command
line. Nothing is ever evaluated.
"""

import ast
import difflib
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# Up to this many names, messages list all instead of guessing.
FEW_NAMES = 8


def split(text: str) -> tuple[str, ...]:
    """Splits `"grpo, ips_grpo(floor=0.2)"` into its specifications, each in normal form.

    Raises:
      ValueError: the text is not a list of `name` or `name(argument=value, ...)`, or is empty.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(
            f"cannot read {text!r}: write name or name(argument=value, ...), separated by commas"
        ) from None
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    if not items:
        raise ValueError(f"{text!r} is an empty list: write at least one name")
    return tuple(normal_form(*_parse(item)) for item in items)


def normal_form(name: str, arguments: Mapping[str, Any]) -> str:
    """The specification of a name and its arguments; `split` reads it."""
    inside = ", ".join(f"{key}={_show(value)}" for key, value in arguments.items())
    return f"{name}({inside})" if inside else name


def with_argument(text: str, name: str, value: Any) -> str:
    """One specification with an argument set: `("ips_grpo", "floor", 0.2)` -> `ips_grpo(floor=0.2)`.

    Raises:
      ValueError: the text is not one specification.
    """
    callee, arguments = _only(text, "specification")
    return normal_form(callee, arguments | {name: value})


def build(text: str, catalog: Mapping[str, Callable[..., Any]], kind: str) -> Any:
    """Calls the function of `catalog` named in `text`, with the arguments in `text`.

    Args:
      text: `name` or `name(argument=value, ...)`.
      catalog: name -> function (or class) with annotated keyword arguments.
      kind: kind of the objects, for messages: `objective`, `environment`, ...

    Raises:
      ValueError: unknown name, unknown argument, or a value of the wrong type; the message suggests known names.
    """
    name, arguments = _only(text, kind)
    if name not in catalog:
        raise ValueError(f"unknown {kind} {name!r}; {did_you_mean(name, sorted(catalog))}")
    function = catalog[name]
    parameters = inspect.signature(function).parameters
    hints = typing.get_type_hints(function.__init__ if inspect.isclass(function) else function)
    for key, value in arguments.items():
        if key not in parameters:
            raise ValueError(f"{kind} {name!r} has no argument {key!r}; {did_you_mean(key, parameters)}")
        if not _fits(value, hints[key]):
            raise ValueError(f"{kind} {name!r}: {key}={_show(value)} is not {_describe(hints[key])}")
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in arguments]
    if missing:
        raise ValueError(f"{kind} {name!r} needs a value for {', '.join(missing)}")
    return function(**arguments)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: similar names, or all if there are few or none is similar."""
    known = list(known)
    close = difflib.get_close_matches(name, known) if len(known) > FEW_NAMES else []
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known) or 'none'}"


def _only(text: str, kind: str) -> tuple[str, dict[str, Any]]:
    items = split(text)
    if len(items) != 1:
        raise ValueError(f"expected one {kind}, got {len(items)} in {text!r}")
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
            raise ValueError(f"{ast.unparse(node)!r} gives an argument twice: give each one once")
        return node.func.id, arguments
    raise ValueError(f"cannot read {ast.unparse(node)!r}: write name or name(argument=value, ...)")


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_value(item) for item in node.elts)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise ValueError(f"{ast.unparse(node)!r} is not a number, word, True, False, None or tuple of these") from None


def _show(value: Any) -> str:
    return value if isinstance(value, str) and value.isidentifier() else repr(value)


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return value in inner
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, option) for option in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, inner[0]) for item in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, types.NoneType if hint is None else hint)


def _describe(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, inner))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_describe, inner))
    if origin is tuple:
        return f"a tuple of {_describe(inner[0])}"
    return {float: "a number", int: "a whole number", str: "a word", bool: "True or False"}.get(hint, "None")
