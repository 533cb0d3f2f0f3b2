"""Names and types of the columns in the tables of `ipsrl.records.results`."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ipsrl.records.discovery import leaves
from ipsrl.records.metric_log import EVALUATION

# The first columns of every table of runs, before those of config.json, with their types.
DESCRIPTION = {
    "path": "VARCHAR",
    "kind": "VARCHAR",
    "objective": "VARCHAR",
    "seed": "BIGINT",
    "complete": "BOOLEAN",
    "started": "TIMESTAMP",
    "last_written": "TIMESTAMP",
}
TYPES = ("BOOLEAN", "BIGINT", "DOUBLE", "TIMESTAMP", "VARCHAR", "JSON")
"""The types that columns may have."""
# Reserved names in that table, for values of config.json and metrics.
TAKEN = (*DESCRIPTION, "step", "summary")

# Fields of a record that identify its run, and its own number.
OF_RECORDS = {"objective": "VARCHAR", "seed": "BIGINT", "step": "BIGINT"}


def config_columns(config: Mapping[str, Any]) -> dict[str, Any]:
    """Column -> value of a config.json, in the order in which names are assigned."""
    taken = set(TAKEN)
    columns = {}
    for keys, value in sorted(leaves(config), key=lambda leaf: (len(leaf[0]) > 1, leaf[0][0] != "training")):
        names = ["_".join(keys[-count:]) for count in range(1, len(keys) + 1)]
        columns[first_free([*names, f"config_{names[-1]}"], taken)] = value
    return columns


def first_free(names: Sequence[str], taken: set[str]) -> str:
    """The first of the names that is not taken, or the last with a number, and marks it as taken.

    SQL names are case-insensitive, and not empty.
    """
    numbered = (f"{names[-1]}_{number}" for number in itertools.count(2))
    name = next(name for name in itertools.chain(names, numbered) if name and name.lower() not in taken)
    taken.add(name.lower())
    return name


def type_of(values: Sequence[Any]) -> str:
    """The type of a column for these values of JSON files."""
    kinds = {type(value) for value in values if value is not None}
    for type_name, fitting in (("BOOLEAN", {bool}), ("BIGINT", {int}), ("DOUBLE", {int, float}), ("VARCHAR", {str})):
        if kinds and kinds <= fitting:
            return type_name
    return "JSON" if kinds & {list, dict} else "VARCHAR"


def metric_types(structures: Iterable[str | None]) -> dict[str, str]:
    """The types of metrics from the structures of records; a metric that was never finite is a number."""
    seen = {}
    for structure in map(json.loads, sorted(filter(None, structures))):
        for metric, kind in structure.items() if isinstance(structure, dict) else ():
            seen.setdefault(metric, set()).add(str(kind))
    types = dict(OF_RECORDS)
    for metric, kinds in seen.items():
        if kinds <= {"NULL", "BIGINT", "UBIGINT", "HUGEINT", "DOUBLE"}:
            types.setdefault(metric, "DOUBLE")
        else:
            types.setdefault(metric, "BOOLEAN" if kinds <= {"NULL", "BOOLEAN"} else "VARCHAR")
    return types


def metric_columns(metrics: Iterable[str]) -> dict[str, str]:
    """Metric -> its column; those of evaluations are last, and avoid the taken names."""
    taken = {"path", *OF_RECORDS}
    columns = {}
    for metric in sorted(metrics, key=lambda metric: metric.startswith(EVALUATION)):
        if metric not in OF_RECORDS:
            names = [re.sub(r"\W+", "_", name) for name in (metric.removeprefix(EVALUATION), metric)]
            columns[metric] = first_free([*names, f"metric_{names[-1]}"], taken)
    return columns
