"""Modules of one's own, entered into the catalogs."""

import re
import sys
import types

import pytest

from ipsrl import objectives
from ipsrl.command import extensions
from ipsrl.environments import catalog as environments
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.objectives import catalog
from ipsrl.study import catalog as studies
from ipsrl.study.settings import Settings


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
    my_study = types.SimpleNamespace(__name__="my_study", PRESETS={"smoke": Settings()}, curves=list, __doc__="Mine.")
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
        ({"OBJECTIVES": [mine]}, "OBJECTIVES of the extension 'my_module' must be a dict"),
        ({"OBJECTIVES": {"grpo": mine}}, "has 'grpo' in OBJECTIVES, but that name is taken: choose another"),
    ],
)
def test_an_extension_that_cannot_be_is_refused_in_one_sentence(extend, names, message):
    extend(**names)
    with pytest.raises(ValueError, match=message):
        extensions.load("my_module")


def test_a_refused_extension_enters_nothing(extend):
    extend("good", OBJECTIVES={"good": mine})
    extend("bad", OBJECTIVES={"mine": mine, "grpo": mine}, ENVIRONMENTS={"my_bandit": Bandit})
    for _ in range(2):
        with pytest.raises(ValueError, match="the extension 'bad' has 'grpo' in OBJECTIVES, but that name is taken"):
            extensions.load("good,bad")
        assert not {"good", "mine"} & set(objectives.names())
    assert extensions.loaded() == ""
    extend("bad", OBJECTIVES={"mine": lambda: mine()})
    extensions.load("good,bad")
    assert {"good", "mine"} <= set(objectives.names())


SAID = {
    "OBJECTIVES = {": r", line 1: SyntaxError: '{' was never closed",
    "x = 1\n  y = 2": ", line 2: IndentationError: unexpected indent",
    "\n1 / 0": ", line 2: ZeroDivisionError: division by zero",
    "def f(): raise ValueError('a\\nb')\nf()": ", line 1: ValueError: a b",
    "class Mute(Exception):\n    def __str__(self): 1 / 0\n\nraise Mute": ", line 4: Mute: no message",
    "\nraise BaseException(1)": ", line 2: BaseException: 1",
    "class Mute:\n    def __repr__(self): 1 / 0\nOBJECTIVES = {Mute(): 3}": ", line 2: ZeroDivisionError",
    "class Mute(dict):\n    def items(self): exit()\nOBJECTIVES = Mute()": ", line 2: SystemExit: None",
    "class Mute:\n    def __getattr__(self, name): 1 / 0\nSTUDIES = {'a': Mute()}": ", line 2: ZeroDivisionError",
    "# coding: foo": "'bad_module': SyntaxError: unknown encoding: foo",
    "x = 1\0": "'bad_module': SyntaxError: source code string cannot contain null bytes",
    "from ipsrl import no_such_name": ", line 1: ImportError: cannot import name 'no_such_name'",
    "f = lambda: f()\nf()": ", line 1: RecursionError: maximum recursion depth exceeded",
    "OBJECTIVES = {'mine': 3}": " has 'mine' in OBJECTIVES: 3 must be a function of keyword arguments",
    "ENVIRONMENTS = {'mine': None}": " has 'mine' in ENVIRONMENTS: None must be a function",
    "OBJECTIVES = {'': print}": " has '' in OBJECTIVES: the name '' cannot be written",
    "OBJECTIVES = {'my-own': print}": " has 'my-own' in OBJECTIVES: the name 'my-own' cannot be written",
    "OBJECTIVES = {'mine': lambda floor: 3}": ": the argument floor has no annotation: write its type",
    "OBJECTIVES = {'mine': lambda **given: 3}": " has the argument **given: it must be a function of keyword",
    "def f(a: 'Nothing'): 3\nOBJECTIVES = {'mine': f}": " cannot be read (name 'Nothing' is not defined): annotate",
    "STUDIES = {'mine': 3}": " has 'mine' in STUDIES: 3 must be a module with PRESETS and curves",
    "import sys\nSTUDIES = {'mine': sys}": " must be a module with PRESETS and curves",
}
"""Source of a module -> what is said of it."""


@pytest.fixture
def bad_module(extend, tmp_path, monkeypatch):
    """Writes a module, which is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source):
        (tmp_path / "bad_module.py").write_text(source)

    yield write
    sys.modules.pop("bad_module", None)


@pytest.mark.parametrize("source", SAID)
def test_a_bad_module_is_refused_in_one_sentence(source, bad_module):
    bad_module(source)
    with pytest.raises(ValueError, match=re.escape(SAID[source])) as refused:
        extensions.load("bad_module")
    assert "\n" not in str(refused.value)
    assert "'bad_module'" in str(refused.value)


MADE = {
    "raise KeyError('x')": "the extension 'bad_module', line 2: KeyError: 'x'",
    "return 3": "mine of bad_module returns 3, it must return an {kind}",
    "class Mute:\n        def __repr__(self): exit()\n    return Mute()": "'bad_module', line 3: SystemExit: None",
    "raise GeneratorExit": "the extension 'bad_module', line 2: GeneratorExit: no message",
    "raise ValueError": "the extension 'bad_module', line 2: ValueError: no message",
    "class Mute(KeyError, ValueError): __str__ = None\n    raise Mute": "'bad_module', line 3: Mute: no message",
    "raise ValueError('floor is 2, it must be less')": "floor is 2, it must be less",
}
"""Body of a function of an extension -> what is said of it, as an objective or as an environment."""


@pytest.mark.parametrize("body", MADE)
@pytest.mark.parametrize(("kind", "make"), [("Objective", objectives.make), ("Environment", environments.make)])
def test_what_a_bad_function_does_is_said_in_one_sentence(kind, make, body, bad_module):
    bad_module(f"def mine():\n    {body}\n{kind.upper()}S = {{'mine': mine}}")
    extensions.load("bad_module")
    with pytest.raises(ValueError, match=re.escape(MADE[body].format(kind=kind))):
        make("mine")


@pytest.mark.parametrize(
    ("presets", "curves", "message"),
    [
        ([1], list, "PRESETS must be a dict of settings, and curves a function"),
        ({"smoke": Settings()}, 3, "PRESETS must be a dict of settings, and curves a function"),
        ({"smoke": {"steps": 3}}, list, "its preset 'smoke' is no ipsrl.study.Settings"),
    ],
)
def test_a_bad_study_is_refused(presets, curves, message, extend):
    extend(STUDIES={"mine": types.SimpleNamespace(__name__="mine", PRESETS=presets, curves=curves)})
    extensions.load("my_module")
    with pytest.raises(ValueError, match=f"mine is not a study: {message}"):
        studies.find("mine")
