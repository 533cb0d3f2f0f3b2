"""The command `python -m experiments.distinctiveness`."""

from ipsrl import study

study.main(__package__)
