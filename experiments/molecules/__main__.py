"""The command `python -m experiments.molecules`."""

from ipsrl import study

study.main(__package__)
