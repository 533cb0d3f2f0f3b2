"""Modules and functions of others: what they raise is a sentence with the name of the module and the line."""

import inspect
import keyword
import traceback
import typing
from collections.abc import Callable, Mapping
from typing import Any

from ipsrl.arguments import allowed_by, shown

OURS = ("ipsrl", "experiments")


def in_a_sentence(module: str, error: BaseException) -> str:
    """`the extension 'mine', line 3: KeyError: 'x'`; the line is the last of the module that the error has passed."""
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == module and frame.f_globals.get("__file__") == frame.f_code.co_filename
    ]
    message = str(error)
    if isinstance(error, SyntaxError) and not lines:
        # Its own: nothing of it has run.
        lines, message = [error.lineno], error.msg
    at = f", line {lines[-1]}" if lines else ""
    return f"the extension {module!r}{at}: {type(error).__name__}: {' '.join(message.split()) or 'no message'}"


def call(function: Callable[..., Any], arguments: Mapping[str, Any], returns: Any) -> Any:
    """What a function of a catalog makes of its arguments.

    Args:
      function: ours, or that of an extension.
      arguments: by name.
      returns: the annotation of what it must return.

    Raises:
      ValueError: raised by the function, or in the place of another error of an extension; or it returns something
        else.
    """
    module = getattr(function, "__module__", None) or "ipsrl"
    try:
        made = function(**arguments)
    except (ValueError, MemoryError):
        raise
    except Exception as error:
        if module.partition(".")[0] in OURS:
            raise
        raise ValueError(in_a_sentence(module, error)) from error
    if not (allowed := allowed_by(returns)).holds(made):
        name = getattr(function, "__name__", "a function")
        raise ValueError(f"{name} of {module} returns {shown(made)}, it must return {allowed.described}")
    return made


def require_name(name: Any) -> None:
    """Raises ValueError unless `name` can be written in a specification."""
    if not (isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)):
        raise ValueError(f"the name {name!r} cannot be written: use letters, digits and _, as in my_name")


def require_factory(function: Any) -> None:
    """Raises ValueError unless `function` takes keyword arguments of known types, as specifications give them."""
    if not callable(function):
        raise ValueError(f"{shown(function)} must be a function of keyword arguments")
    try:
        parameters = inspect.signature(function).parameters.values()
        types = typing.get_type_hints(function.__init__ if inspect.isclass(function) else function)
    except Exception as error:
        raise ValueError(f"the arguments of {shown(function)} cannot be read ({error}): annotate them") from error
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ValueError(
                f"{shown(function)} has the argument {parameter}: it must be a function of keyword arguments"
            )
        if parameter.name not in types:
            raise ValueError(
                f"the argument {parameter.name} has no annotation: write its type, by which texts are read"
            )
