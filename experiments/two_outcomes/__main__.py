"""The command `python -m experiments.two_outcomes`."""

from ipsrl import study

study.main(__package__)
