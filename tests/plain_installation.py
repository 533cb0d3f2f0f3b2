"""Commands in an environment as `pip install .` makes it: all other packages that are installed here are hidden.

`tried` runs this module as a program. It imports ipsrl, and forks for each command, which goes on until it ends, or
until it gets to work: it opens the folder of a study, compiles a program or starts a process.
"""

import dataclasses
import faulthandler
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import re
import runpy
import subprocess
import sys
import tempfile
from importlib.machinery import PathFinder
from pathlib import Path

from tests.hangs import HANGS

ROOT = Path(__file__).resolve().parents[1]
AT_WORK = "at work\n"
COMPILATION = "/jax/core/compile/backend_compile_duration"


@dataclasses.dataclass(frozen=True)
class Said:
    """How a command ended: its exit status, what it printed, and the files that it left in its empty folder."""

    status: int
    text: str
    left: list[str]


def tried(commands):
    """Module of ipsrl -> the error that its import raises, if any; and how each command ended.

    Args:
      commands: arguments of `python`, in which @TMP stands for an empty folder.
    """
    # Where other tests have left a model, commands do not ask for what it takes to make one.
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-m", "tests.plain_installation"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": "", "IPSRL_CACHE": cache},
            input=json.dumps(commands),
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    raised, said = json.loads(done.stdout)
    return raised, [Said(**each) for each in said]


def plain_distributions():
    """The distributions that `pip install .` installs, and ipsrl itself."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return {normal(line.partition("==")[0]) for line in lines if re.match(r"\w.*==", line)} | {"ipsrl"}


def modules_of(plain):
    """The names of the modules that are installed here by some distributions, and by others alone."""
    installed = importlib.metadata.packages_distributions()
    theirs = {module for module, names in installed.items() if not plain.isdisjoint(map(normal, names))}
    return theirs, installed.keys() - theirs


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


class Finder:
    """Finds what Python's own finder finds, but only modules and distributions of a plain installation."""

    def __init__(self):
        self._plain = plain_distributions()
        _, self._hidden = modules_of(self._plain)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self._hidden else PathFinder.find_spec(name, path, target)

    def find_distributions(self, *context):
        return (each for each in PathFinder.find_distributions(*context) if normal(each.name) in self._plain)


def modules():
    """The names of all modules of ipsrl, but for those that are commands."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in sorted((ROOT / "ipsrl").rglob("*.py")))
    return [".".join(path.parts).removesuffix(".__init__") for path in paths if path.name != "__main__"]


def main():
    commands = json.load(sys.stdin)
    sys.meta_path[sys.meta_path.index(PathFinder)] = Finder()
    raised = {}
    for module in modules():
        try:
            importlib.import_module(module)
        except Exception as error:
            raised[module] = f"{type(error).__name__}: {error}"
    # The definitions by which commands look at their flags are kept for all of them.
    definitions = importlib.import_module("ipsrl.command.definitions")
    early = definitions.Module("ipsrl.study.command_line")
    early.refuse("two_outcomes", definitions.Module("experiments.two_outcomes"), ["-m"])
    # To describe the machine, Python starts a process once.
    platform.platform()
    print(json.dumps([raised, [dataclasses.asdict(run(command)) for command in commands]]))


def run(command):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        placed = [part.replace("@TMP", folder) for part in command]
        process = multiprocessing.get_context("fork").Process(target=become, args=(placed, log.fileno()))
        process.start()
        process.join()
        log.seek(0)
        return Said(process.exitcode, log.read(), sorted(os.listdir(folder)))


def become(command, log):
    """Goes on as `python` with these arguments."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.dump_traceback_later(HANGS, exit=True)
    end_at_work()
    sys.orig_argv = [sys.executable, *command]
    if command[0] == "-m":
        sys.argv = ["-m", *command[2:]]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        # A script finds what lies beside it, and not what lies in the working folder.
        sys.path[sys.path.index(str(ROOT))] = str(Path(command[0]).parent)
        runpy.run_path(command[0], run_name="__main__")


def end_at_work():
    import jax

    from ipsrl.study.study import RunFolder

    def end(*arguments, **named):
        print(AT_WORK, end="", flush=True)
        sys.exit()

    RunFolder.open = end
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: event == COMPILATION and end())
    sys.addaudithook(lambda event, arguments: event == "subprocess.Popen" and end())


if __name__ == "__main__":
    main()
