"""Settings of runs: those that all share, and those that distinguish them."""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ipsrl.records.discovery import leaves


def flat(settings: dict[str, Any]) -> dict[str, str]:
    """Dotted name -> value, of nested settings: `{"training": {"steps": 5}}` -> `{"training.steps": "5"}`.

    An object written as `Name(key=value)` is treated as nested settings: `{"policy": "MLP(size=8)"}` -> `{"policy":
    "MLP", "policy.size": "8"}`.
    """
    flattened = {}
    for keys, value in leaves(settings):
        name = ".".join(keys)
        flattened |= _of_text(name, value) if isinstance(value, str) else {name: json.dumps(value)}
    return flattened


def _of_text(name: str, text: str) -> dict[str, str]:
    try:
        # <bound method ...> and the like are not Python.
        node = ast.parse(re.sub(r"<[^<>]*>", "...", text), mode="eval").body
    # Text that is not Python; deep nesting or a null character raises other errors than SyntaxError.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {name: text}
    return _of_node(name, node) if isinstance(node, ast.Call) and not node.args else {name: text}


def _of_node(name: str, node: ast.expr) -> dict[str, str]:
    if not isinstance(node, ast.Call) or node.args:
        return {name: ast.unparse(node)}
    flattened = {name: ast.unparse(node.func)}
    for keyword in node.keywords:
        flattened |= _of_node(f"{name}.{keyword.arg}", keyword.value)
    return flattened


def differing(groups: Sequence[Mapping[str, str]]) -> list[str]:
    """The names with two or more values, in the order of appearance.

    A name that some groups lack does not count: they are of an older version, or the object above it is another one,
    which differs by its own name.
    """
    values = {}
    for settings in groups:
        for name, value in settings.items():
            values.setdefault(name, set()).add(value)
    return [name for name, different in values.items() if len(different) > 1]


def telling(groups: Sequence[Mapping[str, str]]) -> list[str]:
    """A few of the differing names, which distinguish as many groups as all of them; the best splits come first."""
    names, chosen = differing(groups), []

    def kinds(subset: Sequence[str]) -> int:
        return len({tuple(settings.get(name) for name in subset) for settings in groups})

    while kinds(chosen) < kinds(names):
        chosen.append(max(names, key=lambda name: kinds([*chosen, name])))
    return [name for name in names if name in chosen]


def shared(groups: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Name -> value, for names on whose value all groups that have it agree."""
    apart = set(differing(groups))
    return {name: value for settings in groups for name, value in settings.items() if name not in apart}


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Each dotted name -> its last word if no other name ends with it, else the whole name."""
    last = [name.rpartition(".")[2] for name in names]
    return {name: word if last.count(word) == 1 else name for name, word in zip(names, last, strict=True)}
