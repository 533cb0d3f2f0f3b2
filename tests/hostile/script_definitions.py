"""Imported by the server of the trials: processes that are forked from it read the definitions of no script anew."""

from ipsrl.command.definitions import Module
from tests.hostile.command_trial import SCRIPTS

for name in SCRIPTS:
    Module(f"scripts.{name}").parser()
