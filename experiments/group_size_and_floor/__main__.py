"""The command `python -m experiments.group_size_and_floor`."""

from ipsrl import study

study.main(__package__)
