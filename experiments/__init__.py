"""One module for each claim or figure of a paper: `python -m experiments.<name> --preset=smoke|demo|paper`."""

import sys

from ipsrl.command import early
from ipsrl.command.definitions import Module

# While Python looks for the module that `python -m` names.
if sys.argv[0] == "-m" and "-m" in sys.orig_argv:
    _name = sys.orig_argv[sys.orig_argv.index("-m") + 1]
    if _name == __name__:
        early.script(f"{__name__}.__main__")
    else:
        early.refuse(
            lambda: Module("ipsrl.study.command_line").refuse(
                _name.rpartition(".")[2], Module(_name), sys.argv
            )
        )
