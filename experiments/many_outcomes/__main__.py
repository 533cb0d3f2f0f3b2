"""The command `python -m experiments.many_outcomes`."""

from ipsrl import study

study.main(__package__)
