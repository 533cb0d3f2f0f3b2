"""The command `python -m experiments.pessimism`."""

from ipsrl import study

study.main(__package__)
