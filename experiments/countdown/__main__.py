"""The command `python -m experiments.countdown`."""

from ipsrl import study

study.main(__package__)
