"""One module for each claim or figure of a paper: `python -m experiments.<name> --preset=smoke|demo|paper`."""

import contextlib
import os
import signal
import sys
from types import FrameType

from ipsrl.definitions import Module


def _end(number: int, frame: FrameType | None) -> None:
    """Ends a command that is interrupted during its imports, when there is nothing to finish or to continue."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


# While Python looks for the module that `python -m` names. Its imports will take seconds; what is wrong with the flags
# is found without them; where that fails, for whatever reason, the imported module has the say.
if sys.argv[0] == "-m" and "-m" in sys.orig_argv:
    signal.signal(signal.SIGINT, _end)
    _name = sys.orig_argv[sys.orig_argv.index("-m") + 1]
    with contextlib.suppress(Exception):
        Module("ipsrl.study.command_line").refuse(_name.rpartition(".")[2], Module(_name), sys.argv)
