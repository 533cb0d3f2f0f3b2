"""Modules and functions of others: what they raise is a sentence with the name of the module and the line."""

import contextlib
import inspect
import keyword
import textwrap
import traceback
import typing
from collections.abc import Callable, Generator, Mapping
from typing import Any

from ipsrl.checking.arguments import allowed_by, shown

OURS = ("ipsrl", "experiments")
NO_MESSAGE = "no message"


def message(error: BaseException) -> str:
    """The message of an error on one line; "no message" if it is empty or asking for it fails."""
    try:
        return " ".join(str(error).split()) or NO_MESSAGE
    except (Exception, SystemExit):
        return NO_MESSAGE


def said(error: Exception) -> str:
    """The type and the message of an error on one line, of at most 300 characters."""
    return textwrap.shorten(f"{type(error).__name__}: {error}", 300)


def in_a_sentence(module: str, error: BaseException, called: str = "") -> str:
    """`the extension 'mine', line 3: KeyError: 'x'`; the line is the last of the module that the error has passed.

    `called` stands for `the extension 'mine'` where it is not empty.
    """
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == module and frame.f_globals.get("__file__") == frame.f_code.co_filename
    ]
    said = message(error)
    if isinstance(error, SyntaxError) and not lines:
        # Its own: nothing of it has run. What cannot be decoded has no line.
        lines, said = [error.lineno], error.msg or said
    at = f", line {lines[-1]}" if lines and lines[-1] else ""
    return f"{called or f'the extension {module!r}'}{at}: {type(error).__name__}: {said}"


@contextlib.contextmanager
def sentences(module: str) -> Generator[None]:
    """Whatever a module of others raises within becomes a ValueError by `in_a_sentence`, unless it is a sentence.

    Ctrl-C and too little memory pass, as do all errors of modules of ours.
    """
    try:
        yield
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        is_sentence = isinstance(error, ValueError) and message(error) != NO_MESSAGE
        if is_sentence or module.partition(".")[0] in OURS:
            raise
        raise ValueError(in_a_sentence(module, error)) from error


def call(function: Callable[..., Any], arguments: Mapping[str, Any], returns: Any) -> Any:
    """The result of a function of a catalog, called with named arguments; `returns` annotates what it must return.

    Raises:
      ValueError: raised by the function, or in the place of an error of an extension that is another one or has no
        message; or it returns something else.
    """
    module = getattr(function, "__module__", None) or "ipsrl"
    with sentences(module):
        made = function(**arguments)
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
        raise ValueError(
            f"the arguments of {shown(function)} cannot be read ({message(error)}): annotate them"
        ) from error
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ValueError(
                f"{shown(function)} has the argument {parameter}: it must be a function of keyword arguments"
            )
        if parameter.name not in types:
            raise ValueError(
                f"the argument {parameter.name} has no annotation: write its type, by which texts are read"
            )
