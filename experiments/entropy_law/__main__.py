"""The command `python -m experiments.entropy_law`."""

from ipsrl import study

study.main(__package__)
