"""Every checked argument and field refuses other types and numbers just outside its range, in a sentence that names it.

Functions, methods and dataclasses are found here; what they may be given is written down in `allowed.py`. What depends
on several arguments, or on a file, has tests of its own.
"""

import dataclasses
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re

import numpy as np
import pytest

import experiments
import ipsrl
from experiments.dapo_steps.worked_answers import WorkedAnswers
from experiments.modes.mode_bandit import ModeBandit
from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked, in_range
from ipsrl.dynamics.field import Field
from ipsrl.environments.agents.search_agent import SearchAgent
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.molecules import rewards
from ipsrl.environments.molecules.smiles import SmilesVocabulary
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.objectives import make
from ipsrl.objectives.advantages import GroupMean
from ipsrl.objectives.aggregation import SequenceMean
from ipsrl.objectives.surrogates import ClippedRatio
from ipsrl.policies.tabular import Tabular
from ipsrl.training.settings import TrainSettings
from tests.checking.allowed import ARGUMENTS, CHECKED, FIELDS
from tests.checking.probes import VALUES, of_other_types, taken_and_refused, words_of

INTEGRATIONS = {"torch_bridge": "torch", "trl": "trl", "tunix": "tunix", "verl": "verl", "verl_configuration": "verl"}
NOT_HERE = {
    f"ipsrl.integrations.{name}" for name, needs in INTEGRATIONS.items() if importlib.util.find_spec(needs) is None
}
"""Modules that cannot be imported, because what they integrate is not installed."""
GRPO = make("grpo")
EXAMPLES = {
    "objective": GRPO,
    "environment": Bandit(),
    "policy": Tabular(1, 2),
    "settings": TrainSettings(1, 1, 2),
    "advantages": GroupMean(),
    "surrogate": ClippedRatio(),
    "clip": ClippedRatio(),
    "aggregation": SequenceMean(),
    "prompts": (Field(GRPO, (1.0, 0.5), 4),) * 2,
    "rewards": (1.0, 0.5),
    "vocabulary": SmilesVocabulary(("$", "^", "C")),
    "reward": rewards.qed(),
    "task": HypospaceBoolean(),
    "SharedRelationTable.task": SearchAgent(),
    "StageTable.task": WorkedAnswers(),
    "world": ModeBandit(),
    "dataset": "gcd",
    "prompt_index": np.zeros(1, np.int32),
    "StoredGroups.tokens": np.zeros((1, 1, 1), np.int32),
    "lengths": np.ones((1, 1), np.int32),
}
"""Values of fields that have no default, if they are no numbers."""


def modules():
    names = [
        info.name
        for package in (ipsrl, experiments)
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    return [importlib.import_module(name) for name in names if not name.endswith(".__main__") and name not in NOT_HERE]


DEFINED = [
    value
    for module in modules()
    for value in vars(module).values()
    if getattr(value, "__module__", None) == module.__name__
]
CLASSES = [value for value in DEFINED if inspect.isclass(value)]
METHODS = [getattr(value, "__func__", value) for kind in CLASSES for value in vars(kind).values()]
FUNCTIONS = [
    function
    for value in [*DEFINED, *METHODS]
    for function in (value, getattr(value, "__wrapped__", None))
    if getattr(function, "__code__", None) is checked(lambda: None).__code__
]
"""Also those that are compiled."""
KINDS = [kind for kind in CLASSES if issubclass(kind, Checked) and not inspect.isabstract(kind)]


def by_name(table):
    """Name -> kind with its range."""
    parts = [(kind, *part.rpartition(":")) for kind, text in table.items() for part in text.split(";")]
    return {name: f"{kind} {limits.strip()}".strip() for kind, limits, _, names in parts for name in names.split()}


MAY_BE_GIVEN, MAY_BE = by_name(ARGUMENTS), by_name(FIELDS)


def of_name(table, owner, name):
    """The entry of a name of this owner, or else of the name everywhere."""
    assert {f"{owner}.{name}", name} & {*table}, f"write down in tests/checking/allowed.py what {owner}.{name} may be"
    return table.get(f"{owner}.{name}", table.get(name))


def test_every_checked_function_is_written_down():
    assert sorted(function.__qualname__ for function in FUNCTIONS) == sorted(CHECKED.split())


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
def test_no_argument_takes_another_type(function):
    """An argument is given alone, because types come before all else."""
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.annotation is parameter.empty:
            continue
        may_be = of_name(MAY_BE_GIVEN, function.__qualname__, name)
        words = words_of(may_be)
        for value in ["none_such", *of_other_types("text")] if words else of_other_types(may_be):
            given = ([value], {}) if parameter.kind == parameter.VAR_POSITIONAL else ([], {name: value})
            with pytest.raises(ValueError, match=rf"^{name} is .*, it must be .*{', '.join(words)}"):
                function(*given[0], **given[1])


def owner_of(kind):
    """The name of a class, or of the study whose settings it is."""
    return kind.__module__.split(".")[1] if kind.__name__ == "Settings" else kind.__name__


def declares(kind, field):
    return owner_of(next(base for base in kind.__mro__ if field.name in inspect.get_annotations(base)))


def fields(kind):
    """The fields of a class, and what they may be; what is written down for a class holds for its heirs."""
    for field in filter(lambda field: field.init, dataclasses.fields(kind)):
        yield field, of_name(MAY_BE, declares(kind, field), field.name)


@functools.cache
def examples(kind):
    """Values for the fields that have no default."""
    found = {}
    for field, may_be in fields(kind):
        if field.default is field.default_factory:
            of_its_type = [*taken_and_refused(may_be)[0], VALUES.get(may_be)][0]
            shared = EXAMPLES.get(field.name, of_its_type)
            found[field.name] = EXAMPLES.get(f"{kind.__name__}.{field.name}", shared)
    return found


def with_one_field(field, allowed):
    """A dataclass with one field, of the same type and this range."""
    own = (field.name, field.type, in_range(allowed))
    return dataclasses.make_dataclass("Alone", [own], bases=(Checked,), frozen=True, eq=False, repr=False)


def test_nothing_is_written_down_that_is_not_there():
    arguments = {name for function in FUNCTIONS for name in inspect.signature(function).parameters}
    assert {name.rpartition(".")[2] for name in MAY_BE_GIVEN} <= arguments
    there = [(declares(kind, field), field.name) for kind in KINDS for field in dataclasses.fields(kind)]
    assert {*MAY_BE} <= {".".join(names) for names in there} | {name for _, name in there}


@pytest.mark.parametrize("kind", KINDS, ids=owner_of)
def test_a_field_takes_its_type_and_range_and_no_more(kind):
    """Most values are tried without the other fields, which is faster, and a few with them."""
    for field, may_be in fields(kind):
        taken, wrong, outside = taken_and_refused(may_be)
        allowed = field.metadata.get("range")
        if callable(allowed):
            allowed = allowed(kind(**examples(kind)))
        alone = with_one_field(field, allowed)
        for value in taken:
            alone(value)
        for value in wrong:
            with pytest.raises(ValueError, match=r", it must be "):
                alone(value)
        called = getattr(allowed, "called", "") or field.name
        for value in [*wrong[:1], *outside]:
            with pytest.raises(ValueError, match=rf"{re.escape(called)}|{re.escape(str(value).strip('(,)'))}") as error:
                kind(**examples(kind) | {field.name: value})
        if words := words_of(may_be):
            assert {*str(error.value).rpartition("one of ")[2].split(", ")} == {*words}
