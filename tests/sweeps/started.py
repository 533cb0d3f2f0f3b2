"""scripts/sweep.py in a process of its own."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from tests.hangs import wait_until

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def started(out, *arguments, cwd=ROOT):
    """The process, whose output is kept; at the end nothing is left of it."""
    command = [sys.executable, ROOT / "scripts" / "sweep.py", f"--out={out}", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition, process):
    """Returns when a condition holds; fails if the process ends before."""

    def holds():
        assert process.poll() is None, process.communicate()
        return condition()

    wait_until(holds)
