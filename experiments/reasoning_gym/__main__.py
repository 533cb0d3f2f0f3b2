"""The command `python -m experiments.reasoning_gym`."""

from ipsrl import study

study.main(__package__)
