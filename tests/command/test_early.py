"""A command that ends before or during its imports ends with one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LITTLE = "import resource; resource.setrlimit(resource.RLIMIT_AS, (5 * 10**8, 5 * 10**8))"
COMMANDS = [
    ["-m", "experiments.two_outcomes"],
    ["-m", "ipsrl.tunnel"],
    ["-m", "scripts.sweep", "--out=sweep"],
    ["scripts/make_questions.py", "--out=questions"],
]
MADE = ["-m", "scripts.make_checkpoint", "--out=model"]


def said(command, **changes):
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, env=os.environ | changes
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[1])
def test_too_little_address_space_is_said_before_a_library_waits_for_more(command, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(LITTLE)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    assert said(command, PYTHONPATH=paths) == (
        "error: this process may use 0.5 GB of address space, but its libraries reserve up to 2 GB before anything is "
        "computed: raise the limit (ulimit -v)\n"
    )


def test_a_variable_that_a_library_refuses_when_it_is_imported():
    assert said(MADE, JAX_ENABLE_X64="foo") == "error: invalid truth value 'foo' for environment 'JAX_ENABLE_X64'\n"


@pytest.mark.parametrize("command", [COMMANDS[0], *COMMANDS[2:], MADE], ids=lambda command: command[1])
def test_a_home_folder_that_nobody_has_is_said(command):
    assert said([*command, "--out=~nobody-of-this-name/x"]) == (
        "error: --out is '~nobody-of-this-name/x', but ~nobody-of-this-name has no home folder here: write the whole "
        "path, or ./~nobody-of-this-name for a folder of this name\n"
    )
