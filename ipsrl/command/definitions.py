"""Single definitions of modules, without the rest of the module and without the libraries that it imports.

Importing an experiment takes seconds, nearly all of them for JAX and other libraries, while a mistyped flag is found
with a few definitions: the settings, their presets and what reads them. `Module("experiments.hypospace")` has the
same attributes as the imported module, but each is made when it is asked for, from its statement in the source, and
with it only what that statement refers to. What these definitions import of a library, other than those in `LIGHT`,
is a `StandIn`: it may be named, as in an annotation, and raises `Needed` where it is used.

The result is for questions, and thrown away: its classes are not those of the imported modules.
"""

import ast
import builtins
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

LIGHT = sys.stdlib_module_names | {"absl", "numpy", "scipy"}
"""Libraries that are imported where a definition refers to them: they take tenths of a second."""
ROOT = Path(__file__).parents[2]
OURS = {
    **dict.fromkeys(("ipsrl", "experiments", "scripts"), ROOT),
    **dict.fromkeys(("benchmarks", "trials"), ROOT / "scripts"),
}
"""The packages whose definitions are made, with their folders."""


class Needed(Exception):
    """A definition uses a library that is not imported."""


class StandIn:
    """A stand-in for what a library that is not imported would give: it may be named, not used."""

    def __init__(self, name: str, others: tuple[type, ...] = ()):
        """`others` are the types of which a union with it consists besides."""
        self._name, self._others = name, others

    def __getattr__(self, name: str) -> "StandIn":
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._name}.{name}")

    def __getitem__(self, key: Any) -> "StandIn":
        return self

    def __or__(self, other: Any) -> "StandIn":
        return StandIn(self._name, (*self._others, other) if isinstance(other, type) else self._others)

    __ror__ = __or__

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._others)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Returns the function or class that it is called with, as a decorator does; refuses any other call."""
        if len(arguments) == 1 and isinstance(arguments[0], type | FunctionType):
            return arguments[0]
        raise Needed(self._name)

    def _use(self, *arguments: Any) -> Any:
        raise Needed(self._name)

    __mro_entries__ = __iter__ = __bool__ = __float__ = __index__ = _use


class Module:
    """A module of which each attribute is made when it is asked for."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        try:
            return _namespace(self._name)[name]
        except KeyError:
            raise AttributeError(f"{self._name} has no {name}") from None


class _Namespace(dict):
    """The global names of a module; Python's own lookup of a missing one makes it."""

    def __init__(self, name: str, path: Path):
        tree = ast.parse(path.read_bytes())
        # Dataclasses look for the module of a class among those that are imported.
        super().__init__(
            __name__=__name__,
            __doc__=ast.get_docstring(tree, clean=False),
            __file__=str(path),
            __builtins__=vars(builtins) | {"__import__": _import},
        )
        self._module = name
        self._statements: dict[str, list[ast.stmt]] = {}
        for statement in tree.body:
            for bound in dict.fromkeys(_names(statement)):
                self._statements.setdefault(bound, []).append(statement)

    def __missing__(self, name: str) -> Any:
        for statement in self._statements.pop(name, ()):
            match statement:
                case ast.ImportFrom(module, names):
                    only = [alias for alias in names if name == (alias.asname or alias.name)]
                    statement = ast.copy_location(ast.ImportFrom(module, only, 0), statement)
                case ast.FunctionDef() | ast.ClassDef():
                    # Where a class is made, Python does not look up missing names in this way.
                    for read in _read(statement):
                        if read in self._statements:
                            self[read]
            exec(compile(ast.Module([statement], []), self["__file__"], "exec"), self)
        if name in self:
            return self[name]
        if (submodule := f"{self._module}.{name}") and _source(submodule):
            return Module(submodule)
        raise KeyError(name)


def _names(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds, or changes as in `CATALOG["name"] = ...` and `Class.NAMED.update(...)`."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.Assign):
        yield from (name for target in statement.targets for name in _targets(target))
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        yield from _targets(statement.target)
    elif isinstance(statement, ast.Expr):
        yield from _targets(statement.value)


def _targets(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Name(name):
            yield name
        case ast.Tuple(elements):
            for element in elements:
                yield from _targets(element)
        case ast.Call(function):
            yield from _targets(function)
        case ast.Attribute(value) | ast.Subscript(value):
            yield from _targets(value)


def _import(name: str, *context: Any, **named: Any) -> Any:
    """Takes the place of `builtins.__import__` where these definitions import."""
    package = name.partition(".")[0]
    if package in LIGHT:
        return builtins.__import__(name, *context, **named)
    wanted = context[2] if len(context) > 2 else None
    return (Module if package in OURS else StandIn)(name if wanted else package)


@functools.cache
def _namespace(module: str) -> _Namespace:
    path = _source(module)
    if path is None:
        raise Needed(module)
    return _Namespace(module, path)


@functools.cache
def _source(module: str) -> Path | None:
    """The file of a module of ours."""
    base = OURS[module.partition(".")[0]].joinpath(*module.split("."))
    return next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)


def _read(node: ast.AST) -> Iterator[str]:
    """The names that a statement reads when it is executed: not those in the bodies of functions."""
    if isinstance(node, ast.Name):
        yield node.id
    for field, value in ast.iter_fields(node):
        if isinstance(node, ast.FunctionDef | ast.Lambda) and field == "body":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _read(child)
