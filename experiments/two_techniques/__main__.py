"""The command `python -m experiments.two_techniques`."""

from ipsrl import study

study.main(__package__)
