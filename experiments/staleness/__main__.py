"""The command `python -m experiments.staleness`."""

from ipsrl import study

study.main(__package__)
