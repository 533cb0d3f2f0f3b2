"""Single definitions of modules: they agree with the imported module, and need none of the large libraries."""

import importlib
import json
import subprocess
import sys
import textwrap
from types import new_class

import pytest

from ipsrl.command.definitions import Module, Needed, StandIn
from ipsrl.objectives import catalog as objectives
from ipsrl.study import catalog
from ipsrl.study.command_line import refuse
from tests.hostile.command_trial import READ_LATER, SCRIPTS, Said, faults, of_flags

LARGE = {"jax", "flax", "optax", "orbax", "matplotlib", "transformers"}
"""Libraries that take most of the time of a command that is refused after its imports."""


def said(refuse, *arguments):
    try:
        refuse(*arguments)
    except SystemExit as end:
        return end.code
    return None


@pytest.mark.parametrize("name", catalog.names())
def test_what_is_wrong_with_a_command_line_is_the_same_before_and_after_the_imports(name):
    module = catalog.module_name(name)
    early, imported = Module("ipsrl.study.command_line").refuse, importlib.import_module(module)
    for preset in imported.PRESETS:
        command = ["-m", f"--preset={preset}", "--norun_with_pdb"]
        missing = said(refuse, name, imported, command)
        assert said(early, name, Module(module), command) == missing
        assert missing is None or hasattr(imported, "NEEDS")
    for trial in of_flags(name):
        command = ["-m", *trial.arguments[1:]]
        sentence = said(early, name, Module(module), command)
        if sentence is None:
            assert trial.arguments[-1].startswith(READ_LATER), trial
        else:
            assert faults(trial, Said(1, sentence, ())) == [], trial
        assert sentence == said(refuse, name, imported, command)


@pytest.mark.parametrize(
    "text",
    [*objectives.names(), "ips_grpo(probability=exact(backward=none))", "grpo(kl=k3(0.1), correction=masked(0.4))"],
)
def test_every_objective_can_be_made(text):
    assert str(Module("ipsrl.objectives.catalog").make(text)) == str(objectives.make(text))


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("experiments.hypospace --steps=x", "error: --steps is 'x', it must be a whole number"),
        ("experiments.hypospace --mesh=foo", "error: mesh 'foo' must be a list of name:size"),
        ("experiments --zzz", "python -m experiments: error: unrecognized arguments: --zzz"),
        ("scripts.sweep --out=x --experiment=hypospac", "error: unknown experiment 'hypospac'; did you mean"),
        ("scripts.results none", "error: there is no folder none"),
        ("scripts.report x --zzz", "report.py: error: unrecognized arguments: --zzz"),
        ("scripts.reliability --only=kill", "error: unknown name 'kill': choose among kills"),
        ("scripts.make_checkpoint --out=x --seed=x", "make_checkpoint.py: error: argument --seed: invalid int value"),
        *((f"scripts.{name} --zzz", f"{name}.py: error: ") for name in SCRIPTS),
    ],
)
def test_a_command_is_refused_before_its_imports(command, sentence):
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", *command.split()], capture_output=True, text=True, cwd=catalog.root()
    )
    imported = [line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()]
    assert ended.returncode in (1, 2)
    assert any(line.startswith(sentence) for line in imported)
    assert "ipsrl.command.definitions" in imported
    assert not {*imported} & (LARGE | {"experiments.hypospace"})


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_parser_of_a_script_is_the_same_before_and_after_the_imports(name):
    imported = importlib.import_module(f"scripts.{name}")
    assert Module(f"scripts.{name}").parser().format_help() == imported.parser().format_help()


def test_no_large_library_is_imported():
    """Neither for a right command nor for a wrong flag of any study."""
    program = """
        import json, sys
        from ipsrl.command.definitions import Module
        refused = []
        for name, *flags in json.load(sys.stdin):
            try:
                Module("ipsrl.study.command_line").refuse(name, Module(f"experiments.{name}"), ["-m", *flags])
            except SystemExit:
                refused.append([name, *flags])
        print(json.dumps([refused, list(sys.modules)]))
    """
    right = [[name, "--preset=smoke"] for name in catalog.names()]
    trials = [(name, trial.arguments[1:]) for name in catalog.names() for trial in of_flags(name)]
    # One text for each flag.
    one = {(name, flags[-1].partition("=")[0]): flags for name, flags in trials if not flags[-1].startswith(READ_LATER)}
    wrong = [[name, *flags] for (name, _), flags in one.items()]
    command = [sys.executable, "-c", textwrap.dedent(program)]
    ended = subprocess.run(command, input=json.dumps(right + wrong), capture_output=True, text=True, check=True)
    refused, imported = json.loads(ended.stdout)
    # What a study needs may not be installed.
    assert [each for each in refused if each in wrong or not hasattr(catalog.find(each[0]).module, "NEEDS")] == wrong
    assert not {*imported} & LARGE


def test_a_library_that_is_not_imported_may_be_named_but_not_used():
    array = StandIn("jax").Array
    assert dict[str, array | None]
    assert array["float"] is array
    assert array(said) is said, "a decorator"
    for use in (array, lambda: array(1), lambda: bool(array), lambda: list(array), lambda: new_class("C", (array,))):
        with pytest.raises(Needed, match=r"jax\.Array"):
            use()


def test_a_module_has_submodules_and_no_more_than_its_names():
    assert Module("ipsrl").objectives.catalog.names() == objectives.names()
    with pytest.raises(AttributeError, match=r"ipsrl\.checking\.fields has no nothing"):
        _ = Module("ipsrl.checking.fields").nothing
