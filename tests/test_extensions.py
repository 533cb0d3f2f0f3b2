"""Modules of one's own, entered into the catalogs."""

import sys
import types

import pytest

from ipsrl import extensions, objectives
from ipsrl.environments import catalog as environments
from ipsrl.environments.bandit import Bandit
from ipsrl.objectives import catalog
from ipsrl.study import catalog as studies


@pytest.fixture
def extend(monkeypatch):
    """Makes a module with these names importable, and leaves the catalogs as they were."""
    monkeypatch.setattr(catalog, "CATALOG", dict(catalog.CATALOG))
    monkeypatch.setattr(environments, "CATALOG", dict(environments.CATALOG))
    monkeypatch.setattr(extensions, "STUDIES", {})
    # Set and deleted: `delenv` alone would leave behind what a test has loaded, for all commands that others start.
    monkeypatch.setenv(extensions.VARIABLE, "")
    monkeypatch.delenv(extensions.VARIABLE)

    def make(name="my_module", **names):
        module = types.ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return make


def mine(floor: float = 0.1):
    return objectives.make(f"ips_grpo(floor={floor})")


def test_names_of_an_extension_are_known_wherever_names_are(extend):
    my_study = types.SimpleNamespace(__name__="my_study", PRESETS={}, curves=None, __doc__="Mine.")
    extend(OBJECTIVES={"mine": mine}, ENVIRONMENTS={"my_bandit": Bandit}, STUDIES={"my_study": my_study})
    extensions.load("my_module")
    assert objectives.make("mine(floor=0.2)") == objectives.make("ips_grpo(floor=0.2)")
    assert environments.make("my_bandit(rewards=(1.0, 0.5))") == Bandit((1.0, 0.5))
    assert studies.find("my_study").module is my_study
    assert studies.module_name("my_study") == "my_study"
    assert extensions.loaded() == "my_module"


def test_processes_that_are_started_load_the_same_modules(extend, monkeypatch):
    extend(OBJECTIVES={"mine": mine})
    monkeypatch.setenv(extensions.VARIABLE, "my_module")
    extensions.load()
    assert "mine" in objectives.names()
    # Loading it again changes nothing.
    extensions.load("my_module, my_module")
    assert extensions.loaded() == "my_module"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, "has neither OBJECTIVES nor ENVIRONMENTS nor STUDIES: give it one"),
        ({"OBJECTIVES": [mine]}, "OBJECTIVES of the extension 'my_module' must be a dict"),
        ({"OBJECTIVES": {"grpo": mine}}, "has 'grpo' in OBJECTIVES, but that name is taken: choose another"),
    ],
)
def test_an_extension_that_cannot_be_is_refused_in_one_sentence(extend, names, message):
    extend(**names)
    with pytest.raises(ValueError, match=message):
        extensions.load("my_module")


def test_a_module_that_is_not_there(extend):
    with pytest.raises(ValueError, match="the extension 'no_such_module' cannot be imported: No module named"):
        extensions.load("no_such_module")
