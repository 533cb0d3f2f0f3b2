"""Imported by the server of the trials: processes that are forked from it read the definitions of no script anew."""

import contextlib

from ipsrl.definitions import Module
from tests.hostile.command_trial import SCRIPTS

for name in SCRIPTS:
    # The imported script has the say where a definition needs a large library, and some end where they lack a flag.
    with contextlib.suppress(Exception):
        Module(f"scripts.{name}").parser()
