"""The command `python -m experiments.thought_switching`."""

from ipsrl import study

study.main(__package__)
