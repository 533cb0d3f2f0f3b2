"""The command `python -m experiments.dialogue_users`."""

from ipsrl import study

study.main(__package__)
