"""Programs that need a process of their own, each forked from one that has the imports: those take seconds."""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from tests.hangs import HANGS

SEES_US = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
FORKS = """
import json, os, sys
while request := sys.stdin.readline():
    program, *streams = json.loads(request)
    if os.fork() == 0:
        for number, path in enumerate((os.devnull, *streams)):
            os.dup2(os.open(path, os.O_RDWR), number)
        exec(program)
        break
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@contextlib.contextmanager
def forks(imports):
    """Gives a function: program -> its exit status, and what it printed to both streams.

    All are forks of one process, which has executed `imports`, and end like any other.
    """
    command = [sys.executable, "-c", imports + FORKS]
    with subprocess.Popen(command, env=SEES_US, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:

        def ends(program):
            with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
                print(json.dumps([textwrap.dedent(program), out.name, err.name]), file=parent.stdin, flush=True)
                assert select.select([parent.stdout], [], [], HANGS)[0], err.read()
                return int(parent.stdout.readline()), out.read(), err.read()

        yield ends
