"""Bad input on the command line ends in one sentence that names it, whatever the flag."""

import subprocess
import sys

import pytest

from ipsrl.study import catalog
from tests.hostile.command_trial import (
    OF_ALL_STUDIES,
    READ_LATER,
    SCRIPTS,
    Said,
    Trial,
    Trials,
    faults,
    of_flags,
    of_script,
)
from tests.hostile.commands import BY_HAND


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    finished = tmp_path_factory.mktemp("finished") / "run"
    command = [sys.executable, "-m", "experiments.two_outcomes", "--preset=smoke", "--steps=20", f"--out={finished}"]
    subprocess.run(command, check=True, cwd=catalog.root(), capture_output=True)
    return Trials(finished)


def test_no_text_of_another_type_gets_through(trials):
    """One for each flag of one study, and what others read later; command/test_definitions.py has all, not started."""
    others = [trial for name in catalog.names() for trial in of_flags(name)]
    later = [trial for trial in others if trial.arguments[-1].startswith(READ_LATER)]
    one = {trial.arguments[-1].partition("=")[0]: trial for trial in of_flags(OF_ALL_STUDIES)}
    assert not found_in([*one.values(), *later], trials)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_text_of_another_type_gets_through_to_a_script(name, trials):
    assert not found_in(of_script(name), trials)


def test_every_script_is_tried():
    files = (catalog.root() / "scripts").glob("*.py")
    assert {file.stem for file in files if "def parser()" in file.read_text()} == set(SCRIPTS)


def found_in(tried, trials):
    found = {str(trial): faults(trial, trials.run(trial)) for trial in tried}
    return {command: wrong for command, wrong in found.items() if wrong}


@pytest.mark.parametrize("trial", BY_HAND, ids=str)
def test_a_command_is_refused(trial, trials):
    assert not faults(trial, trials.run(trial))


def test_what_a_refused_command_leaves_is_a_fault():
    trial = Trial(("experiments",), "no")
    assert faults(trial, Said(1, "error: no", ())) == []
    assert faults(trial, Said(1, "error: no", ("x",))) == ["it left x"]
