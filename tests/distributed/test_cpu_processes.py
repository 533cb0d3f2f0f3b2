"""Other processes of this machine end with the one that started them, without a word of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.hangs import HANGS

IMPORTED = r"""
import os, time
if __name__ != "__main__":
    # In one write, which another process does not interrupt.
    os.write(1, b"imports\n")
    time.sleep(3600)
from ipsrl.distributed.cpu_processes import cpu_processes
from ipsrl.command.ending import Ending
with Ending("try again"):
    cpu_processes(2).schedule(print)
    # A signal that comes just before a sleep begins is heard after it.
    while True:
        time.sleep(0.05)
"""


def test_ctrl_c_in_a_terminal_while_processes_import_is_one_sentence(tmp_path):
    """A terminal sends it to the whole group."""
    (tmp_path / "program.py").write_text(IMPORTED)
    with subprocess.Popen(
        [sys.executable, tmp_path / "program.py"],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert [process.stdout.readline() for _ in range(2)] == ["imports\n"] * 2
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=HANGS) == ("", "interrupted: try again\n")
        assert process.returncode == 130
